"""A recorded trace: lines of text → requests in the order of their arrival."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import msgspec
from msgspec.structs import replace

from slotline.core.simulation.formats import CSV, Format, Skipped, recognised, request
from slotline.core.simulation.request import Request
from slotline.core.simulation.rows import Row, TraceError

_LOOKED_AT = 200  # lines: a log begins with the progress of the gateway's start


@dataclass(frozen=True, slots=True)
class Trace:
    """What was read. The first request is at 0."""

    format: Format
    requests: Sequence[Request]
    notes: tuple[str, ...] = ()  # what was left out or made up, for whoever reads the report


def read(
    lines: Iterable[str],
    file: str,
    format_: Format | None = None,
    key_field: str | None = None,
    limit: int | None = None,
) -> Trace:
    """The requests of `lines`, at most `limit` of them. `format_`: None to find it out; `file`: for messages.

    `key_field`: the column or field that says whose a request is. Raises TraceError.
    """
    numbered = enumerate(lines, 1)
    first = list(islice(numbered, _LOOKED_AT))
    if format_ is None:
        format_ = _recognise(first, file)
    every = chain(first, numbered)
    rows = _csv(every, file) if format_ in CSV else _json(every, file, strict=format_ is not Format.LOG)
    requests: list[Request] = []
    skipped: Counter[str] = Counter()
    for row in rows:
        try:
            requests.append(request(format_, row, key_field))
        except Skipped as reason:
            skipped[str(reason)] += 1
        if len(requests) == limit:
            break
    if not requests:
        raise TraceError(file, None, f"there is no request in it that could be replayed (format {format_})")
    made_up = _give_lengths(requests, file) if format_ is Format.LOG else 0
    notes = [f"left out: {number} {reason}" for reason, number in skipped.items()]
    if made_up:
        notes.append(f"{made_up} requests that never had a slot are taken to be as long as others of their key")
    return Trace(format_, _in_order(requests), tuple(notes))


def _recognise(first: Iterable[tuple[int, str]], file: str) -> Format:
    """By the fields of the first line that has any: the head of a table, or an object of JSON."""
    for _, line in first:
        text = line.strip().removeprefix("\ufeff")
        fields = _object(text) if text.startswith("{") else _cells(text)
        found = recognised([str(field) for field in fields])
        if found is not None:
            return found
    known = ", ".join(Format)
    raise TraceError(file, None, f"its format is none of {known}; --format says which one it is")


def _object(line: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(line, type=dict[str, object])
    except msgspec.DecodeError:
        return {}


def _cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # nothing that could be a table
        return []


def _csv(lines: Iterable[tuple[int, str]], file: str) -> Iterator[Row]:
    reader = csv.reader(line for _, line in lines)
    try:
        head = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(head):
                raise TraceError(file, reader.line_num, f"there are {len(cells)} fields, and {len(head)} in the head")
            yield Row(file, reader.line_num, dict(zip(head, cells, strict=True)))
    except csv.Error as error:
        raise TraceError(file, reader.line_num, str(error)) from None


def _json(lines: Iterable[tuple[int, str]], file: str, *, strict: bool) -> Iterator[Row]:
    """One object a line. Not `strict`: lines that do not begin with a brace are somebody else's."""
    decode = msgspec.json.Decoder(dict[str, object]).decode
    for number, line in lines:
        text = line.strip().removeprefix("\ufeff") if number == 1 else line.strip()
        if not text or not (strict or text.startswith("{")):
            continue
        try:
            yield Row(file, number, decode(text))
        except msgspec.DecodeError as error:
            raise TraceError(file, number, f"this is no JSON object: {error}") from None


def _in_order(requests: list[Request]) -> list[Request]:
    """By arrival, from 0 on."""
    requests.sort(key=lambda request: request.at)
    first = requests[0].at
    return [replace(request, at=round(request.at - first, 6)) for request in requests]


def _give_lengths(requests: list[Request], file: str) -> int:
    """Those without a length get the mean of their key's, or else of all; how many there were."""
    measured: defaultdict[str | None, list[float]] = defaultdict(list)
    for each in requests:
        if each.held is not None:
            measured[each.key].append(each.held)
            measured[None].append(each.held)
    if not measured:
        raise TraceError(file, None, "no request in it ever had a slot: nothing says how long they take")
    means = {key: sum(times) / len(times) for key, times in measured.items()}
    made_up = 0
    for index, each in enumerate(requests):
        if each.held is None:
            requests[index] = replace(each, held=means.get(each.key, means[None]))
            made_up += 1
    return made_up
