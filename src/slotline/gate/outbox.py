"""What one replica is about to write, in order, without what means nothing any more by the time it is written.

While the server cannot be reached it all waits here, for as long as that takes. So it must not grow with time: there is
no more of it than there are requests and upstreams, however often those come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotline.core.journal import Command, Join, Keep, Leave, Mark, Offer, Retry, See, Withdraw

_AT_ONCE = 500  # commands in one entry


class Outbox:
    """Commands that wait to be written."""

    def __init__(self) -> None:
        self._commands: dict[object, Command] = {}

    def __bool__(self) -> bool:
        return bool(self._commands)

    def __len__(self) -> int:
        return len(self._commands)

    def add(self, command: Command) -> None:
        """`command` is the last one. What it makes void is taken out."""
        match command:
            case Leave(ticket=ticket) if self._commands.pop((Join, ticket), None) is not None:
                return  # nobody has heard of it
            case Withdraw(upstream=name):
                for kind in (Offer, See, Withdraw):
                    self._commands.pop((kind, name), None)
        self._commands[_subject(command)] = command  # a newer word on the same thing stands where the older one stood

    def begin(self, commands: Iterable[Command]) -> None:
        """From now on there are `commands`, and nothing of what was but the places that are to be kept."""
        kept = [each for each in self._commands.values() if isinstance(each, Keep)]
        self._commands = {_subject(each): each for each in [*commands, *kept]}

    def take(self) -> Sequence[Command]:
        """The next entry, which is not here any more. A mark stands alone: pictures are of what is between entries."""
        batch: list[Command] = []
        for command in self._commands.values():
            if len(batch) == _AT_ONCE or (batch and (isinstance(command, Mark) or isinstance(batch[0], Mark))):
                break
            batch.append(command)
        for command in batch:
            del self._commands[_subject(command)]
        return batch


def _subject(command: Command) -> object:
    """What a command is about: of two with the same, the later one is enough."""
    match command:
        case Join(ticket=ticket) | Leave(ticket=ticket) | Retry(ticket=ticket):
            return type(command), ticket
        case Offer(upstream=name) | See(upstream=name) | Withdraw(upstream=name):
            return type(command), name
        case Keep(request=request):
            return Keep, request
        case _:
            return command
