"""Splitting `<think>…</think>` off the text. How the pieces become blocks, `test_stream` shows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.anthropic.tags import Piece, Tags


def split(*texts: str) -> tuple[str, str]:
    """All thinking and all text that the pieces give."""
    tags = Tags()
    pieces: list[Piece] = [piece for text in texts for piece in tags.split(text)] + tags.rest()
    assert all(piece.text for piece in pieces)
    thinking = [piece.text for piece in pieces if piece.thinking]
    return "".join(thinking), "".join(piece.text for piece in pieces if not piece.thinking)


@pytest.mark.parametrize(
    ("text", "thinking", "rest"),
    [
        ("hello", "", "hello"),
        ("<think>hm</think>hi", "hm", "hi"),
        (" \n<think>\nhm\n</think>\n\nhi", "\nhm\n", "hi"),
        ("<think>hm", "hm", ""),
        ("<think>hm</thin", "hm</thin", ""),
        ("<think>a<b</c</think>hi", "a<b</c", "hi"),
        ("<think></think>", "", ""),
        ("</think>hi", "", "hi"),
        ("\n</think>\nhi", "", "hi"),
        ("hi <think>no</think>", "", "hi <think>no</think>"),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<thinking>", "", "<thinking>"),
        ("<thi", "", "<thi"),
        ("\n\n", "", "\n\n"),
        ("", "", ""),
    ],
)
def test_any_cut_gives_the_same_thinking_and_text(text: str, thinking: str, rest: str) -> None:
    assert split(text) == (thinking, rest)
    assert split(*text) == (thinking, rest)
    for at in range(len(text)):
        assert split(text[:at], text[at:]) == (thinking, rest)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "think>", "a", "\n"])), st.lists(st.integers(1, 60)))
def test_any_cuts_of_any_text_give_the_same(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert split(*(text[start:stop] for start, stop in pairwise(edges))) == split(text)


def test_what_cannot_be_a_tag_is_not_held_back() -> None:
    tags = Tags()
    assert tags.split("<thr") == [Piece(thinking=False, text="<thr")]
    assert tags.quiet
    tags = Tags()
    assert tags.split("<think>a</th") == [Piece(thinking=True, text="a")]
    assert tags.split("ree") == [Piece(thinking=True, text="</three")]


def test_after_reasoning_by_another_way_text_begins_anew() -> None:
    tags = Tags()
    tags.split("a")
    tags.expect()
    assert tags.split("</think>b") == [Piece(thinking=False, text="b")]


def forced(*texts: str) -> tuple[str, str]:
    """The same, after the reasoning was ended by force."""
    tags = Tags()
    tags.expect()
    tags.forced()
    pieces: list[Piece] = [piece for text in texts for piece in tags.split(text)] + tags.rest()
    thinking = [piece.text for piece in pieces if piece.thinking]
    return "".join(thinking), "".join(piece.text for piece in pieces if not piece.thinking)


@pytest.mark.parametrize(
    ("text", "thinking", "rest"),
    [
        ("rest of it </think>Answer", "rest of it ", "Answer"),
        ("</think>\n\nAnswer", "", "Answer"),
        ("Answer", "", "Answer"),
        ("x" * 300, "", "x" * 300),
        ("x" * 300 + "</think>y", "", "x" * 300 + "y"),
        ("a</think>b</think>c", "a", "bc"),
        ("a</thin", "", "a</thin"),
    ],
)
def test_after_a_forced_end_the_rest_of_the_reasoning_is_no_text(text: str, thinking: str, rest: str) -> None:
    """B96: also where the tag is cut over two pieces."""
    assert forced(text) == (thinking, rest)
    for cut in range(len(text)):
        assert forced(text[:cut], text[cut:])[1].replace("</think>", "") == rest


def test_in_the_text_of_a_model_that_reasons_a_closing_tag_is_removed_wherever_it_stands() -> None:
    tags = Tags()
    tags.expect()
    pieces = [*tags.split("Answer</th"), *tags.split("ink> more"), *tags.rest()]
    assert "".join(piece.text for piece in pieces) == "Answer more"
    assert not any(piece.thinking for piece in pieces)


def test_a_model_that_does_not_reason_may_speak_of_tags() -> None:
    assert split("an answer about </think>") == ("", "an answer about </think>")
