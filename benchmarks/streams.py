"""What does a token cost, and what a request? Processor time of the gateway against the bare libraries, in one run.

    python benchmarks/streams.py [--rounds N] [--seconds S]

The gateway and `bare.py` each stand before the same upstream (`stub.c`) and take turns under the same load (`load.c`).
The servers run on processor 1, stub and load on processor 0. Every figure is the run time of the server's process
(`/proc/PID/task/*/schedstat`) divided by the events that the client counted and checked, the median of the rounds.
Quote the ratios: the absolute figures are this machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parent / ".run" / "bench"


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of load. `spec`: the stub's, see its head. `clients`: connections; each asks again when answered."""

    name: str
    spec: str
    clients: int
    per: str  # what the cost is divided by: "token" or "request"


LOADS = (
    Load("256 tokens, 10 ms apart, 64 clients", "n256g10000", 64, "token"),
    Load("256 tokens, 10 ms apart, 256 clients", "n256g10000", 256, "token"),
    Load("256 tokens, as fast as they come, 32 clients", "n256g0", 32, "token"),
    Load("1 token, 32 clients", "n1g0", 32, "request"),
)


@dataclass(slots=True)
class Server:
    """A server under test: what counts as one event in its answers, and what as their end."""

    name: str
    pid: int
    port: int
    needle: str
    end: str


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=4.0)
    given = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stub, load = build("stub"), build("load")
        upstream = 18900
        spawn(stack, [stub, "-p", str(upstream)], processor=0, ready=b"ready")
        servers = [gateway(stack, folder, upstream), bare(stack, upstream)]
        for kind in LOADS:
            costs: dict[str, list[float]] = {server.name: [] for server in servers}
            for _ in range(given.rounds):
                for server in servers:
                    costs[server.name].append(measure(load, server, kind, given.seconds, folder))
            show(kind, costs)


def build(name: str) -> Path:
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / name
    subprocess.run(["cc", "-O2", "-o", program, HERE / f"{name}.c"], check=True)
    return program


def spawn(stack: ExitStack, command: list[str | Path], processor: int, ready: bytes) -> int:
    process = subprocess.Popen(
        ["taskset", "-c", str(processor % (os.cpu_count() or 1)), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(ready):
            return process.pid
    raise RuntimeError(f"{command} ended before it was ready")


def gateway(stack: ExitStack, folder: Path, upstream: int) -> Server:
    config = folder / "slotline.toml"
    config.write_text(
        f'[server]\nport = 18901\n[[upstream]]\nname = "stub"\nurl = "http://127.0.0.1:{upstream}"\nkind = "openai"\n'
        'slots = 1000\n[[model]]\nname = "bench"\nupstream = "stub"\naliases = ["stub-*"]\n'
    )
    command: list[str | Path] = [sys.executable, "-m", "slotline", "serve", "--quiet", "--config", config]
    pid = spawn(stack, command, processor=1, ready=b"listening")
    return Server("slotline", pid, 18901, 'content_block_delta"', 'message_stop"')


def bare(stack: ExitStack, upstream: int) -> Server:
    command: list[str | Path] = [sys.executable, HERE / "bare.py", "18902", f"http://127.0.0.1:{upstream}"]
    pid = spawn(stack, command, processor=1, ready=b"ready")
    return Server("bare libraries", pid, 18902, '"content":"', "[DONE]")


def measure(load: Path, server: Server, kind: Load, seconds: float, folder: Path) -> float:
    """Microseconds of processor time per token or request."""
    body = folder / "body.json"
    text = [{"role": "user", "content": f"stub-{kind.spec}"}]
    body.write_text(json.dumps({"model": "bench", "max_tokens": 512, "stream": True, "messages": text}))
    before = run_time(server.pid)
    ends = ("-k", server.needle, "-e", server.end)
    command = [str(load), "-p", str(server.port), "-b", str(body), "-c", str(kind.clients), "-d", str(seconds), *ends]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    spent = run_time(server.pid) - before
    seen = json.loads(done.stdout)
    if seen["errs"]:
        raise RuntimeError(f"{server.name}: {seen['errs']} answers were wrong: {done.stderr}")
    count: int = seen["needles"] if kind.per == "token" else seen["reqs"]
    return spent / 1000 / count


def run_time(pid: int) -> int:
    """Nanoseconds that all threads of a process have run."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def show(kind: Load, costs: dict[str, list[float]]) -> None:
    limit = statistics.median(costs["bare libraries"])
    sys.stdout.write(f"\n{kind.name}: microseconds of processor time per {kind.per}\n")
    for name, values in costs.items():
        middle = statistics.median(values)
        spread = f"{min(values):.1f}-{max(values):.1f}"
        sys.stdout.write(f"  {name:16} {middle:8.1f}  ({spread})  {middle / limit:5.2f} of the bare libraries\n")
    sys.stdout.flush()


if __name__ == "__main__":
    began = time.monotonic()
    main()
    sys.stdout.write(f"\n{time.monotonic() - began:.0f} s\n")
