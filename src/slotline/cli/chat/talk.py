"""What was said in a chat, and the next thing to ask."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotline.cli.asking import question


@dataclass(slots=True)
class Talk:
    """One conversation with `model`. `thinking` None: not a word about it."""

    model: str
    max_tokens: int
    system: str | None = None
    thinking: bool | None = None
    said: list[dict[str, str]] = field(default_factory=list)

    def ask(self, text: str) -> bytes:
        """The call that says `text` after all that was said. Only `answered` makes it part of that."""
        messages = [*self.said, {"role": "user", "content": text}]
        return question(self.model, messages, self.max_tokens, system=self.system, thinking=self.thinking)

    def answered(self, text: str, answer: str) -> None:
        """`answer` was said to `text`. Without any, as if neither had been: an API takes no empty answers."""
        if answer.strip():
            self.said += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]

    def anew(self) -> None:
        """Nothing was said."""
        self.said.clear()
