"""What was said in a chat is said again with every question."""

from __future__ import annotations

import json
from typing import Any

from slotline.cli.chat.talk import Talk


def asked(talk: Talk, text: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(talk.ask(text))
    return body


def test_a_question_carries_what_was_said_and_only_an_answer_makes_it_part_of_that() -> None:
    talk = Talk("m", 99, system="be brief", thinking=True)
    asked(talk, "never answered")
    talk.answered("one", "1")
    talk.answered("stopped before a word", " \n")
    assert asked(talk, "two") == {
        "model": "m",
        "max_tokens": 99,
        "stream": True,
        "messages": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": "two"},
        ],
        "system": "be brief",
        "thinking": {"type": "adaptive"},
    }


def test_a_new_chat_remembers_nothing_but_its_settings() -> None:
    talk = Talk("m", 99, system="be brief")
    talk.answered("one", "1")
    talk.anew()
    body = asked(talk, "two")
    assert body["messages"] == [{"role": "user", "content": "two"}]
    assert body["system"] == "be brief"
