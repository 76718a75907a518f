"""One item of an answer while it is being written: its events, from the first to the one that holds all of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import msgspec
from msgspec import UNSET

from slotline.core.responses import events as to
from slotline.core.responses.opaque import seal
from slotline.core.responses.output import (
    CustomCallItem,
    FunctionCallItem,
    Item,
    MessageItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Status,
    SummaryText,
)
from slotline.core.responses.tools import Callee


class Draft(ABC):
    """What all kinds share: where the item is, and what of it has come."""

    def __init__(self, identity: str, index: int, number: Callable[[], int]) -> None:
        """`number`: gives the next sequence number."""
        self.id = identity
        self.index = index
        self._number = number
        self._parts: list[str] = []

    def begin(self) -> Iterator[to.Event]:
        """The item appears, empty."""
        yield to.ItemAdded(
            sequence_number=self._number(), output_index=self.index, item=self._item("", Status.IN_PROGRESS)
        )
        yield from self._opened()

    def add(self, text: str) -> Iterator[to.Event]:
        """More of it."""
        self._parts.append(text)
        yield self._delta(text)

    def end(self, *, cut: bool) -> Iterator[to.Event]:
        """The item is complete; `cut`: as complete as it will ever be."""
        text = "".join(self._parts)
        yield from self._closed(text)
        yield to.ItemDone(sequence_number=self._number(), output_index=self.index, item=self.item(cut=cut))

    def item(self, *, cut: bool) -> Item:
        """What has come of it."""
        return self._item("".join(self._parts), Status.INCOMPLETE if cut else Status.COMPLETED)

    @abstractmethod
    def _item(self, text: str, status: Status) -> Item: ...

    @abstractmethod
    def _delta(self, text: str) -> to.Event: ...

    @abstractmethod
    def _opened(self) -> Iterator[to.Event]: ...

    @abstractmethod
    def _closed(self, text: str) -> Iterator[to.Event]: ...


class MessageDraft(Draft):
    """What the model says."""

    def _item(self, text: str, status: Status) -> Item:
        content = () if status is Status.IN_PROGRESS else (OutputText(text),)
        return MessageItem(id=self.id, status=status, content=content)

    def _opened(self) -> Iterator[to.Event]:
        yield to.PartAdded(
            sequence_number=self._number(), item_id=self.id, output_index=self.index, part=OutputText("")
        )

    def _delta(self, text: str) -> to.Event:
        return to.TextDelta(sequence_number=self._number(), item_id=self.id, output_index=self.index, delta=text)

    def _closed(self, text: str) -> Iterator[to.Event]:
        yield to.TextDone(sequence_number=self._number(), item_id=self.id, output_index=self.index, text=text)
        yield to.PartDone(
            sequence_number=self._number(), item_id=self.id, output_index=self.index, part=OutputText(text)
        )


class ReasoningDraft(Draft):
    """What the model thinks, as it thinks it."""

    def __init__(self, identity: str, index: int, number: Callable[[], int], *, sealed: bool) -> None:
        """`sealed`: the whole item also has its text in a form that can be sent back."""
        super().__init__(identity, index, number)
        self._sealed = sealed

    def _item(self, text: str, status: Status) -> Item:
        done = status is not Status.IN_PROGRESS
        return ReasoningItem(
            id=self.id,
            status=status,
            content=(ReasoningText(text),) if done else (),
            encrypted_content=seal(text) if self._sealed and done else UNSET,
        )

    def _opened(self) -> Iterator[to.Event]:
        yield to.PartAdded(
            sequence_number=self._number(), item_id=self.id, output_index=self.index, part=ReasoningText("")
        )

    def _delta(self, text: str) -> to.Event:
        return to.ReasoningDelta(sequence_number=self._number(), item_id=self.id, output_index=self.index, delta=text)

    def _closed(self, text: str) -> Iterator[to.Event]:
        yield to.ReasoningDone(sequence_number=self._number(), item_id=self.id, output_index=self.index, text=text)
        yield to.PartDone(
            sequence_number=self._number(), item_id=self.id, output_index=self.index, part=ReasoningText(text)
        )


class SummaryDraft(ReasoningDraft):
    """What the model thinks, for a client that asked for a summary: such clients show nothing else, and nobody here
    writes a shorter one."""

    def _item(self, text: str, status: Status) -> Item:
        done = status is not Status.IN_PROGRESS
        return ReasoningItem(
            id=self.id,
            status=status,
            summary=(SummaryText(text),) if done else (),
            encrypted_content=seal(text) if self._sealed and done else UNSET,
        )

    def _opened(self) -> Iterator[to.Event]:
        yield to.SummaryPartAdded(
            sequence_number=self._number(), item_id=self.id, output_index=self.index, part=SummaryText("")
        )

    def _delta(self, text: str) -> to.Event:
        return to.SummaryDelta(sequence_number=self._number(), item_id=self.id, output_index=self.index, delta=text)

    def _closed(self, text: str) -> Iterator[to.Event]:
        yield to.SummaryDone(sequence_number=self._number(), item_id=self.id, output_index=self.index, text=text)
        yield to.SummaryPartDone(
            sequence_number=self._number(), item_id=self.id, output_index=self.index, part=SummaryText(text)
        )


class CallDraft(Draft):
    """A call of a function. It comes whole, so that all of it is one delta."""

    def __init__(self, identity: str, index: int, number: Callable[[], int], call_id: str, callee: Callee) -> None:
        """`call_id`: what the result will name."""
        super().__init__(identity, index, number)
        self._call_id = call_id
        self._callee = callee

    def add(self, text: str) -> Iterator[to.Event]:
        self._parts.append(text)
        yield from ()

    def end(self, *, cut: bool) -> Iterator[to.Event]:
        """Whether a call was cut is seen in it: one that is whole may be followed by one that is not."""
        arguments = "".join(self._parts) or "{}"
        self._parts = [self._text(arguments)]
        yield self._delta(self._parts[0])
        yield from super().end(cut=not _is_json(arguments))

    def _text(self, arguments: str) -> str:
        return arguments

    def _item(self, text: str, status: Status) -> Item:
        return FunctionCallItem(
            id=self.id,
            call_id=self._call_id,
            name=self._callee.name,
            arguments=text,
            status=status,
            namespace=self._callee.namespace or UNSET,
        )

    def _opened(self) -> Iterator[to.Event]:
        yield from ()

    def _delta(self, text: str) -> to.Event:
        return to.ArgumentsDelta(sequence_number=self._number(), item_id=self.id, output_index=self.index, delta=text)

    def _closed(self, text: str) -> Iterator[to.Event]:
        yield to.ArgumentsDone(
            sequence_number=self._number(),
            item_id=self.id,
            output_index=self.index,
            arguments=text,
        )


class CustomCallDraft(CallDraft):
    """A call of a tool that takes free text: what the model wrote as its only argument."""

    def _text(self, arguments: str) -> str:
        """Models that were told of one field now and then invent another; what they wrote is not lost then."""
        try:
            fields = msgspec.json.decode(arguments, type=dict[str, object])
        except (msgspec.DecodeError, RecursionError):
            return arguments
        text = fields.get("input")
        return text if isinstance(text, str) else arguments

    def _item(self, text: str, status: Status) -> Item:
        return CustomCallItem(
            id=self.id,
            call_id=self._call_id,
            name=self._callee.name,
            input=text,
            status=status,
            namespace=self._callee.namespace or UNSET,
        )

    def _delta(self, text: str) -> to.Event:
        return to.InputDelta(sequence_number=self._number(), item_id=self.id, output_index=self.index, delta=text)

    def _closed(self, text: str) -> Iterator[to.Event]:
        yield to.InputDone(sequence_number=self._number(), item_id=self.id, output_index=self.index, input=text)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
