"""The state of a gateway as rows: who has which slot, who waits, and why. No terminal is needed to look at them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from slotline.cli.printable import one_line
from slotline.cli.top.table import Column, Row, Span, Tone, cut, head, line, widths
from slotline.core.report import Phase, Request, Slot, SlotState, State, Upstream
from slotline.core.why import names, spoken

_OVER: Final = 4.0  # seconds that a speed is measured over
_LEAST: Final = 0.4  # … of which there must be so many
_BAR: Final = 10  # columns
_NAMED: Final = 12  # columns that a line's name has at least

_SLOTS: Final = (
    Column("slot", right=True),
    Column("state", least=9, most=9),
    Column("progress", least=20, most=34),
    Column("tokens/s", rank=2, least=8, most=8, right=True),
    Column("held", rank=1, least=6, most=10, right=True),
    Column("model", rank=3, least=8, most=28),
    Column("key", rank=4, least=5, most=16),
    Column("request", rank=5, least=12),
)
_WAITING: Final = (
    Column("place", least=5, right=True),
    Column("class", rank=4, least=11, most=11),
    Column("model", least=8, most=28),
    Column("key", rank=2, least=5, most=16),
    Column("waited", least=6, most=10, right=True),
    Column("expected", rank=1, least=8, most=10, right=True),
    Column("why", rank=5, least=20, most=72),
    Column("request", rank=6, least=12),
)
_TONES: Final[Mapping[str, Tone]] = {
    SlotState.FREE: Tone.DIM,
    SlotState.LOADING: Tone.BUSY,
    SlotState.PREFILL: Tone.BUSY,
    SlotState.THINKING: Tone.BUSY,
    SlotState.ANSWERING: Tone.GOOD,
    SlotState.DRAINING: Tone.BAD,
    SlotState.OUTSIDE: Tone.BAD,
    SlotState.DOWN: Tone.BAD,
    "up": Tone.GOOD,
    "down": Tone.BAD,
}


class Speeds:
    """How fast each answer grows, from one state to the next."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}  # request → seconds of the gateway's clock, pieces

    def note(self, state: State) -> None:
        """The next state. One of a gateway that was started anew begins anew."""
        now = state.gateway.uptime_ms / 1000
        seen: dict[str, deque[tuple[float, int]]] = {}
        for request in state.requests:
            if request.running_ms is not None:
                samples = seen[request.id] = self._seen.get(request.id, deque())
                samples.append((now, request.pieces))
                while now - samples[0][0] > _OVER:
                    samples.popleft()
        self._seen = seen

    def of(self, request: str) -> float | None:
        """Tokens a second; None where that is not known yet, or nothing of the answer has come."""
        samples = self._seen.get(request)
        if not samples or samples[-1][0] - samples[0][0] < _LEAST or not samples[-1][1]:
            return None
        return (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])

    def all(self) -> float:
        """Of all answers together."""
        return sum(self.of(request) or 0.0 for request in self._seen)


def totals(state: State, speeds: Speeds) -> str:
    """The whole in one sentence."""
    slots = [upstream.slots for upstream in state.upstreams]
    waits = [request for request in state.requests if request.phase is Phase.WAITING]
    parts = [f"{sum(each.busy for each in slots)} of {_many(sum(each.total for each in slots), 'slot')} busy"]
    elsewhere = sum(_elsewhere(state).values())
    if waits:
        longest = spoken(max(request.waited_ms for request in waits) / 1000)
        here = " here" if elsewhere else ""
        parts.append(f"{_in_line(len(waits), elsewhere)}, the longest{here} for {longest}")
    elif elsewhere:
        parts.append(_in_line(0, elsewhere))
    else:
        parts.append("nobody in line")
    if speed := speeds.all():
        parts.append(f"{speed:.0f} tokens/s")
    if state.gateway.draining:
        parts.append("about to end: nobody is let in")
    return " · ".join(parts)


def rows(state: State, speeds: Speeds, width: int) -> list[Row]:
    """Upstreams with their slots, then those who wait."""
    requests = {request.id: request for request in state.requests}
    return [*_upstreams(state, requests, speeds, width), *_lines(state, width)]


def detail(request: Request, speeds: Speeds) -> list[tuple[str, str]]:
    """All that is told of one request: names and values."""
    plain = msgspec.to_builtins(request)
    speed = speeds.of(request.id)
    told = {
        "request": request.id,
        "phase": str(request.phase),
        "place": f"{request.position} of {request.queue_length}" if request.position is not None else None,
        "expected": _span(request.estimated_wait_ms),
        "waited": _span(request.waited_ms),
        "running": _span(request.running_ms),
        "upstream": request.upstream or names(request.upstreams),
        "model": request.model,
        "route": request.surface + (", streaming" if request.stream else ", not streaming"),
        "key": request.key,
        "session": request.flow,
        "class": plain["class"],
        "prompt": f"{request.prompt.processed} of {request.prompt.total} tokens read" if request.prompt else None,
        "answer": _pieces(request.thought, request.pieces) or None,
        "tokens/s": f"{speed:.0f}" if speed is not None else None,
        "outcome": request.outcome and str(request.outcome).replace("_", " "),
    }
    return [(name, one_line(value)) for name, value in told.items() if value]


# ---- slots -----------------------------------------------------------------------------------------------------------


def _upstreams(state: State, requests: Mapping[str, Request], speeds: Speeds, width: int) -> Iterator[Row]:
    cells = {
        upstream.name: [*_slots(upstream, requests, speeds), *_without(upstream, state, speeds)]
        for upstream in state.upstreams
    }
    fitted = widths(_SLOTS, [row for table in cells.values() for row, _ in table], width)
    for place, upstream in enumerate(state.upstreams):
        if place:
            yield Row(())
        yield _name(upstream, width)
        yield head(_SLOTS, fitted)
        yield from (line(_SLOTS, row, fitted, request) for row, request in cells[upstream.name])


def _name(upstream: Upstream, width: int) -> Row:
    slots = upstream.slots
    counts = [f"{slots.busy} of {_many(slots.total, 'slot')} busy"]
    counts += [f"{count} {word}" for count, word in ((slots.draining, "draining"), (slots.down, "down")) if count]
    if upstream.waiting:
        counts.append(f"{upstream.waiting} in line")
    state = Span(upstream.state, _TONES.get(upstream.state, Tone.BUSY))
    left = width - len(f"{upstream.name} {upstream.kind} {upstream.state}")
    said = cut(" · ".join(["", *counts]), left)
    spans = [Span(f"{one_line(upstream.name)} ", Tone.STRONG), Span(f"{upstream.kind} "), state, Span(said)]
    if why := _trouble(upstream):
        spans.append(Span(cut(f" · {one_line(why)}", left - len(said)), Tone.BAD))
    return Row(spans)


def _trouble(upstream: Upstream) -> str:
    """What is wrong with it; nothing where it is well."""
    if upstream.out_of_order_ms is not None:
        return f"out of order for {spoken(upstream.out_of_order_ms / 1000)}: {upstream.reason or 'it failed too often'}"
    return upstream.reason


def _slots(
    upstream: Upstream, requests: Mapping[str, Request], speeds: Speeds
) -> Iterator[tuple[list[Span], str | None]]:
    for slot in upstream.slots.each:
        request = requests.get(slot.request_id or "")
        state = Span(slot.state, _TONES.get(slot.state, Tone.PLAIN))
        number = "–" if slot.index is None else str(slot.index)
        yield [Span(number), state, Span(_progress(slot)), *_of(request, slot.held_ms, speeds)], slot.request_id


def _without(upstream: Upstream, state: State, speeds: Speeds) -> Iterator[tuple[list[Span], str]]:
    """Those who run there and have given their slot back already."""
    seated = {slot.request_id for slot in upstream.slots.each}
    for request in state.requests:
        if request.upstream == upstream.name and request.id not in seated:
            phase = Span(request.phase, _TONES.get(request.phase, Tone.PLAIN))
            said = Span(_pieces(request.thought, request.pieces))
            yield [Span("–"), phase, said, *_of(request, request.running_ms, speeds)], request.id


def _of(request: Request | None, held: int | None, speeds: Speeds) -> list[Span]:
    if request is None:
        return [Span(""), Span(_span(held)), Span(""), Span(""), Span("")]
    speed = speeds.of(request.id)
    return [
        Span(f"{speed:.0f}" if speed is not None else ""),
        Span(_span(held)),
        Span(one_line(request.model)),
        Span(one_line(request.key or "–")),
        Span(request.id, Tone.DIM),
    ]


def _progress(slot: Slot) -> str:
    if slot.state is SlotState.PREFILL and slot.prompt is not None and slot.prompt.total:
        done, total = slot.prompt.processed, slot.prompt.total
        full = min(_BAR, _BAR * done // total)
        return f"{'█' * full}{'░' * (_BAR - full)} {done}/{total}"
    match slot.state:
        case SlotState.OUTSIDE:
            return "used by others"
        case SlotState.DRAINING:
            return "its request has ended"
        case _:
            return _pieces(slot.thought, slot.pieces)


def _pieces(thought: int, pieces: int) -> str:
    parts = [f"{pieces - thought} said"] if pieces > thought else []
    return ", ".join([*parts, *([f"{thought} thought"] if thought else [])])


# ---- who waits -------------------------------------------------------------------------------------------------------


def _lines(state: State, width: int) -> Iterator[Row]:
    """One block for each line: those who wait for the same upstreams.

    Of those who wait at other gateways of a cluster it is only known how many they are.
    """
    elsewhere = _elsewhere(state)
    lines: dict[tuple[str, ...], list[Request]] = {}
    for request in state.requests:
        if request.phase is Phase.WAITING:
            lines.setdefault(tuple(sorted(request.upstreams)), []).append(request)
    for upstreams in elsewhere:
        lines.setdefault(upstreams, [])
    classes = len({request.priority for waits in lines.values() for request in waits}) > 1
    cells = {line: [_waiting(each, classes=classes) for each in _in_order(waits)] for line, waits in lines.items()}
    fitted = widths(_WAITING, [row for table in cells.values() for row, _ in table], width)
    yield Row(())
    if not lines:
        yield Row([Span("nobody is in line", Tone.DIM)])
    for place, (upstreams, table) in enumerate(cells.items()):
        if place:
            yield Row(())
        said = f" · {_in_line(len(table), elsewhere.get(upstreams, 0))}"
        where = cut(f"line for {one_line(names(upstreams))}", max(_NAMED, width - len(said)))
        yield Row([Span(where, Tone.STRONG), Span(cut(said, width - len(where)))])
        if table:
            yield head(_WAITING, fitted)
        yield from (line(_WAITING, row, fitted, request) for row, request in table)


def _elsewhere(state: State) -> dict[tuple[str, ...], int]:
    """How many of each line wait at other gateways, where any do: whoever has a place, and is not of this one."""
    own = Counter(tuple(sorted(each.upstreams)) for each in state.requests if each.position is not None)
    lengths = {tuple(sorted(line.upstreams)): line.length for line in state.lines}
    return {names: length - own[names] for names, length in lengths.items() if length > own[names]}


def _in_line(here: int, elsewhere: int) -> str:
    """How many wait, and how many of them where nobody sees them from here."""
    if not elsewhere:
        return f"{here} in line"
    where = "at another gateway" if elsewhere == 1 else "at other gateways"
    of_them = f"{elsewhere} of them " if here else "all " if elsewhere > 1 else ""
    return f"{here + elsewhere} in line, {of_them}{where}"


def _in_order(waits: Sequence[Request]) -> list[Request]:
    """By place; those who have none yet came last."""
    return sorted(waits, key=lambda request: request.position or len(waits) + 1)


def _waiting(request: Request, *, classes: bool) -> tuple[list[Span], str]:
    """`classes`: there is more than one, so that it is worth a word."""
    expected = request.estimated_wait_ms
    cells = [
        Span(str(request.position or "–")),
        Span(request.priority if classes else ""),
        Span(one_line(request.model)),
        Span(one_line(request.key or "–")),
        Span(_span(request.waited_ms)),
        Span("unknown" if expected is None else _span(expected)),
        Span(one_line(request.cause or request.why)),
        Span(request.id, Tone.DIM),
    ]
    return cells, request.id


def _span(ms: int | None) -> str:
    return "" if ms is None else spoken(ms / 1000)


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
