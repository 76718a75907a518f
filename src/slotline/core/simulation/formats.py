"""The formats of traces: how a line of each becomes a request.

`azure`     CSV: TIMESTAMP, ContextTokens, GeneratedTokens.
            https://github.com/Azure/AzurePublicDataset, the LLM inference traces of 2023 and 2024
`burstgpt`  CSV: Timestamp (seconds), Model, Request tokens, Response tokens; perhaps Session ID, which is a flow.
            https://github.com/HPMLL/BurstGPT; a request without an answer failed there, and is left out
`mooncake`  JSON lines: timestamp (milliseconds), input_length, output_length.
            https://github.com/kvcache-ai/Mooncake
`log`       the gateway's own log in a pipe: the lines of requests that have ended (docs/operations.md)
`plain`     JSON lines: at (seconds, or a date and time), and either prompt_tokens and output_tokens, or held (seconds
            with a slot), or both; if wanted key, flow, class, model, patience (seconds)

A request of a log that never had a slot has no length. It gets one from `trace`, and keeps its client's patience.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from slotline.core.errors import Outcome
from slotline.core.simulation.request import Request
from slotline.core.simulation.rows import Row


class Format(StrEnum):
    """Whose trace it is."""

    AZURE = "azure"
    BURSTGPT = "burstgpt"
    MOONCAKE = "mooncake"
    LOG = "log"
    PLAIN = "plain"


CSV = frozenset({Format.AZURE, Format.BURSTGPT})
_BYTES_PER_TOKEN = 4  # of a request's JSON, roughly; it weighs prompts against each other where nothing else is known
_CLASSES = ("interactive", "batch")


class Skipped(Exception):
    """The line is no request that could be replayed; the reason is one of a few."""


class _Spec(NamedTuple):
    needs: frozenset[str]  # the fields by which it is recognised
    read: Callable[[Row], Request]


def recognised(fields: Collection[str]) -> Format | None:
    """The format that has all these fields, or more; None: none of them."""
    return next((format_ for format_, spec in _SPECS.items() if spec.needs <= set(fields)), None)


def request(format_: Format, row: Row, key_field: str | None) -> Request:
    """What the line says; `at` is in seconds from any moment. `key_field`: where the key stands, if not as usual.

    Raises TraceError, and Skipped.
    """
    read = _SPECS[format_].read(row)
    if key_field is None:
        return read
    if key_field not in row.fields:
        raise row.error(key_field, "the key is to stand there")
    return replace(read, key=row.text(key_field))


def _azure(row: Row) -> Request:
    return Request(row.moment("TIMESTAMP"), prompt=row.count("ContextTokens"), output=row.count("GeneratedTokens"))


def _burstgpt(row: Row) -> Request:
    output = row.count("Response tokens")
    if not output:
        raise Skipped("failed requests")
    return Request(
        row.number("Timestamp"),
        flow=row.text("Session ID"),
        model=row.text("Model"),
        prompt=row.count("Request tokens"),
        output=output,
    )


def _mooncake(row: Row) -> Request:
    return Request(row.number("timestamp") / 1000, prompt=row.count("input_length"), output=row.count("output_length"))


def _log(row: Row) -> Request:
    if row.fields.get("message") != "request ended":
        raise Skipped("other lines of the log")
    outcome = row.text("outcome")
    if outcome == Outcome.INVALID:
        raise Skipped("invalid requests")
    waited = row.number("waited_s")
    held = row.number("ran_s") if row.has("ran_s") else None
    return Request(
        row.moment("time") - waited - (held or 0.0),
        key=row.text("key"),
        batch=_is_batch(row),
        model=row.text("model"),
        prompt=row.count("bytes") // _BYTES_PER_TOKEN if row.has("bytes") else 0,
        output=row.count("pieces") if held is not None and row.has("pieces") else 0,
        held=held,
        patience=waited if outcome == Outcome.CLIENT_LEFT_WAITING else None,
    )


def _plain(row: Row) -> Request:
    at = row.fields["at"]
    held = row.number("held") if row.has("held") else None
    measured = held is not None
    return Request(
        row.moment("at") if isinstance(at, str) else row.number("at"),
        key=row.text("key"),
        flow=row.text("flow"),
        batch=_is_batch(row),
        model=row.text("model"),
        prompt=0 if measured and not row.has("prompt_tokens") else row.count("prompt_tokens"),
        output=0 if measured and not row.has("output_tokens") else row.count("output_tokens"),
        held=held,
        patience=row.number("patience") if row.has("patience") else None,
    )


def _is_batch(row: Row) -> bool:
    said = row.text("class")
    if said not in {"", *_CLASSES}:
        raise row.error("class", f"a class is one of {', '.join(_CLASSES)}")
    return said == "batch"


_SPECS: Mapping[Format, _Spec] = MappingProxyType(
    {
        Format.AZURE: _Spec(frozenset({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}), _azure),
        Format.BURSTGPT: _Spec(frozenset({"Timestamp", "Request tokens", "Response tokens"}), _burstgpt),
        Format.MOONCAKE: _Spec(frozenset({"timestamp", "input_length", "output_length"}), _mooncake),
        Format.LOG: _Spec(frozenset({"time", "logger", "message"}), _log),
        Format.PLAIN: _Spec(frozenset({"at"}), _plain),
    }
)
