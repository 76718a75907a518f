"""What the translation of one event costs, against the least that anything in its place would have to do.

    python benchmarks/translation.py [EVENTS]

The same bodies of chat streams go, in one process and in turn, through

    slotline     SSE parser → typed decode → translation → Anthropic events, encoded and framed
    msgspec      split at the blank lines → msgspec.json.decode → msgspec.json.encode, framed
    json         the same with the standard library: json.loads → json.dumps

as bodies arrive: in reads of 1, 16 and all events. Only processor time counts (`time.process_time`), the best of seven
rounds that take turns; the figures to compare are the ratios.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping

import msgspec

from slotline.core import sse
from slotline.core.anthropic import events
from slotline.core.anthropic.stream import MessageStream

ROUNDS = 7
ENVELOPE = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795973363, "model": "m"}
Reads = list[bytes]


def chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    body = {**ENVELOPE, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def body(kind: str, count: int) -> list[bytes]:
    """A whole answer of `count` deltas of one kind, event by event."""
    if kind == "tools":
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write", "arguments": '{"text":"'}}
        part = {"tool_calls": [{"index": 0, "function": {"arguments": " wörds"}}]}
        last = {"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]}
        deltas = [chunk({"tool_calls": [call]}), *[chunk(part)] * (count - 2), chunk(last)]
    else:
        key = "content" if kind == "text" else "reasoning_content"
        deltas = [chunk({key: " wörds"})] * count
    return [chunk({"role": "assistant", "content": None}), *deltas, chunk({}, "stop"), b"data: [DONE]\n\n"]


def slotline(reads: Reads) -> int:
    parser, made = sse.Parser(1 << 22), 0
    stream = MessageStream(message_id="msg_1", model="m", tool_id=lambda: "toolu_1")
    for data in reads:
        out = b"".join(events.encode(event) for received in parser.feed(data) for event in stream.feed(received.data))
        made += len(out)
    assert stream.done
    return made


def bare(decode: Callable[[bytes], object], encode: Callable[[object], bytes]) -> Callable[[Reads], int]:
    """The least: every event is read as JSON and written as JSON."""

    def run(reads: Reads) -> int:
        made = 0
        for data in reads:
            for event in data[:-2].split(b"\n\n"):
                payload = event[6:]
                if payload != b"[DONE]":
                    made += len(b"event: chunk\ndata: %b\n\n" % encode(decode(payload)))
        return made

    return run


def together(parts: list[bytes], size: int) -> Reads:
    return [b"".join(parts[at : at + size]) for at in range(0, len(parts), size)]


def best(runs: dict[str, Callable[[Reads], int]], reads: Reads) -> dict[str, float]:
    """Seconds of processor time for each, which take turns: what disturbs one disturbs all."""
    times: dict[str, float] = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin = time.process_time()
            run(reads)
            times[name] = min(times[name], time.process_time() - begin)
    return times


def main(count: int) -> None:
    peers = {
        "msgspec": bare(msgspec.json.decode, msgspec.json.encode),
        "json": bare(json.loads, lambda value: json.dumps(value).encode()),
    }
    heads = ["events", "a read", "µs an event", "events/s", "MB/s", *(f"to {name}" for name in peers)]
    print("| " + " | ".join(heads) + " |")
    print("| " + " | ".join("---" for _ in heads) + " |")
    for kind in ("text", "reasoning", "tools"):
        parts = body(kind, count)
        size = sum(map(len, parts))
        for read in (1, 16, len(parts)):
            reads = together(parts, read)
            times = best({"ours": slotline, **peers}, reads)
            ours = times["ours"]
            ratios = [f"{ours / times[name]:.2f}" for name in peers]
            cells = [
                kind,
                str(read) if read < len(parts) else "all",
                f"{ours / len(parts) * 1e6:.2f}",
                f"{len(parts) / ours:,.0f}",
                f"{size / ours / 1e6:.0f}",
                *ratios,
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
