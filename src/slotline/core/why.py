"""Why a request waits, what it does, or how it ended: one sentence, without its subject, for people.

Callers read these sentences about their own requests, so that nobody else is named in them: others are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotline.core.errors import Invalid, Protocol, SlotlineError, UpstreamStatus
from slotline.core.liveness import State
from slotline.core.report import Phase, Prompt

_NOTEWORTHY = 5.0  # seconds without anything new, in the middle of an answer
_NAMED = 3  # upstreams


@dataclass(frozen=True, slots=True)
class Server:
    """One upstream, as those see it who wait for it."""

    name: str
    held: Sequence[float] = ()  # for how many seconds each slot has been
    draining: int = 0  # of those, how many were held by requests that have ended
    outside: int = 0  # slots that others use
    closed: float | None = None  # seconds since it is out of order
    loading: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A request that has its slot, on `upstream`, for `seconds`; the counts are those of its answer."""

    phase: Phase
    upstream: str
    slot: int | None
    seconds: float
    prompt: Prompt | None = None
    pieces: int = 0
    thought: int = 0
    quiet: float | None = None  # seconds since the upstream sent a byte; None: it has sent none
    silence: State | None = None  # what it means that nothing has come; None: nobody has asked yet


def waiting(seconds: float, position: int, length: int, expected: float | None, names: str, cause: str) -> str:
    """For one in line. `expected`: seconds until its slot. `cause`: see `obstacle` and `barred`."""
    until = f"its slot is expected in {spoken(expected)}" if expected is not None else "nobody can say yet for how long"
    return f"waits for {spoken(seconds)} at place {position} of {length} for {names}: {cause}; {until}"


def barred(most: int | None) -> str:
    """For one whose key has all running that it may have."""
    return f"its key has {most} running, which is all that it may have"


def obstacle(servers: Sequence[Server]) -> str:
    """Why nobody who waits for these gets a slot just now."""
    if servers and all(server.closed is not None for server in servers):
        return ", ".join(f"{server.name} is out of order for {spoken(server.closed or 0.0)}" for server in servers)
    held = [seconds for server in servers for seconds in server.held]
    said = [_held(held)] if held else []
    if draining := sum(server.draining for server in servers):
        said.append(f"{draining} of them for {_requests(draining)} that left and may still be worked on")
    if outside := sum(server.outside for server in servers):
        said.append(f"{_slots(outside)} used by others than this gateway")
    said += [f"{server.name} is loading" for server in servers if server.loading]
    said += [f"{server.name} is out of order" for server in servers if server.closed is not None]
    return ", ".join(said) or "no slot can be used just now"


def names(upstreams: Sequence[str]) -> str:
    """The upstreams that one waits for."""
    more = len(upstreams) - _NAMED
    return " or ".join(upstreams[:_NAMED]) + (f" or one of {more} more" if more > 0 else "")


def running(run: Run) -> str:
    """For one that has its slot."""
    where = run.upstream if run.slot is None else f"{run.upstream} slot {run.slot}"
    return f"runs on {where} for {spoken(run.seconds)}: {_doing(run)}"


def ended(ago: float, waited: float, ran: float | None, outcome: str, words: str = "") -> str:
    """For one that is over; `waited` and `ran` in seconds. `words`: of the error that ended it."""
    ran_for = "without a slot" if ran is None else f"{spoken(ran)} in a slot"
    how = outcome.replace("_", " ") + (f" ({words})" if words else "")
    return f"ended {spoken(ago)} ago: {how}, after {spoken(waited)} in line and {ran_for}"


def own_words(error: SlotlineError | None) -> str:
    """What `error` says, if all of it is the gateway's own: the words of others may quote what was said."""
    return "" if error is None or isinstance(error, (Invalid, Protocol, UpstreamStatus)) else str(error)


def spoken(seconds: float) -> str:
    """A duration: 0.4 s, 43 s, 12 min, 3 h 20 min."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


# ---- inside ----------------------------------------------------------------------------------------------------------


def _doing(run: Run) -> str:
    new = f", and nothing new for {spoken(run.quiet)}" if run.quiet is not None and run.quiet >= _NOTEWORTHY else ""
    match run.phase:
        case Phase.LOADING:
            return "the upstream is loading or restarting"
        case Phase.THINKING:
            return f"thinking, {_pieces(run.thought)}{new}"
        case Phase.ANSWERING:
            return f"answering, {_pieces(run.pieces)}{new}"
        case Phase.ENDING:
            return "it is ending, and its client may still be reading"
        case _:
            return _reading(run, new) if run.quiet is not None else f"nothing has come back yet{_MEANS[run.silence]}"


def _reading(run: Run, new: str) -> str:
    read = "" if run.prompt is None else f", {run.prompt.processed} of {run.prompt.total} tokens"
    return f"reading the prompt{read}{new}"


_MEANS = {
    None: "",
    State.LOADING: "",
    State.FLOWING: "",
    State.BUSY: ", and the upstream is busy, as far as it shows",
    State.IDLE: ", and the upstream says that its slot is idle",
}


def _held(held: Sequence[float]) -> str:
    if len(held) == 1:
        return f"1 slot is held, for {spoken(held[0])}"
    return f"{len(held)} slots are held, the longest for {spoken(max(held))}"


def _slots(count: int) -> str:
    return "1 slot is" if count == 1 else f"{count} slots are"


def _requests(count: int) -> str:
    return "a request" if count == 1 else "requests"


def _pieces(count: int) -> str:
    return "1 piece" if count == 1 else f"{count} pieces"
