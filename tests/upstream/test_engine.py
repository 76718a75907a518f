"""The embedded engine: watched, restarted, and never left behind."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slotline.upstream.engine import Engine, EngineSpec, EngineUnavailable, Pace, Phase, private_folder, sweep
from slotline.upstream.engine_child import Order
from slotline.upstream.model_file import default_cache, ensure

QUICK = Pace(rest=0.01, longest_rest=0.04, look=0.001, longest_look=0.01, still_loading=0.0)

# Stands in for the engine's process where no llama.cpp is needed. It writes down its order, fails to start in its first
# `deaths` lives, then is "loading" for the first `looks` requests, as llama.cpp says it, and healthy from then on.
FAKE_CHILD = """
import json, os, pathlib, socketserver, sys, threading
from http.server import BaseHTTPRequestHandler
notes, deaths, looks = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
order = json.loads(sys.stdin.readline())
(notes / "order").write_text(json.dumps(order))
(notes / "session").write_text(f"{os.getsid(0)} {os.getpid()}")
lives = notes / "lives"
lived = int(lives.read_text()) if lives.exists() else 0
lives.write_text(str(lived + 1))
if lived < deaths:
    print("a first word\\nout of memory", file=sys.stderr)
    sys.exit(3)
class Health(BaseHTTPRequestHandler):
    seen = 0
    def do_GET(self):
        Health.seen += 1
        self.send_response(200 if Health.seen > looks else 503)
        self.end_headers()
    def address_string(self): return "-"
    def log_message(self, *_): pass
server = socketserver.UnixStreamServer(order["socket"], Health)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""


class Told(list[str]):
    """Collects what is reported; a call is a line."""

    def __call__(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def spec(tmp_path: Path) -> EngineSpec:
    """A model file that only the fake child takes for one."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return EngineSpec(path, "tiny", slots=3, context=512, threads=1)


def fake(notes: Path, *, deaths: int = 0, looks: int = 0) -> list[str]:
    """The command line of the fake child."""
    return [sys.executable, "-c", FAKE_CHILD, str(notes), str(deaths), str(looks)]


def folder(engine: Engine) -> Path:
    """The folder of the engine's socket."""
    return Path(engine.url.removeprefix("unix:")).parent


# ---- the life of a child ---------------------------------------------------------------------------------------------


async def test_it_is_ready_when_health_says_so_and_not_before(spec: EngineSpec, tmp_path: Path) -> None:
    told = Told()
    async with Engine(spec, told, child=fake(tmp_path, looks=3), pace=QUICK) as engine:
        assert repr(engine).startswith("<Engine tiny resting pid=None")
        await engine.ready()
        assert repr(engine).startswith("<Engine tiny ready pid=")
    assert told[0] == "loading tiny …"
    assert len([line for line in told if line.startswith("still loading tiny … ")]) >= 3
    assert told[-1].startswith("tiny is ready after ")
    assert told[-1].endswith(": 3 slots of 512 tokens")


async def test_the_child_gets_its_order_and_a_session_of_its_own(spec: EngineSpec, tmp_path: Path) -> None:
    template = tmp_path / "think.jinja"
    template.write_text("{{ messages }}")
    spec = EngineSpec(spec.model_path, "tiny", slots=3, context=512, threads=1, chat_template=template)
    async with Engine(spec, Told(), child=fake(tmp_path), pace=QUICK) as engine:
        await engine.ready()
        order = Order.read((tmp_path / "order").read_bytes())
    socket = str(folder(engine) / "engine.sock")
    assert order == Order(os.getpid(), socket, str(spec.model_path), "tiny", 3, 512, 1, "{{ messages }}")
    session, child = (tmp_path / "session").read_text().split()
    assert session == child  # so that Ctrl-C in the terminal does not reach it


async def test_each_death_is_reported_once_and_the_rest_grows_and_it_never_gives_up(
    spec: EngineSpec, tmp_path: Path
) -> None:
    told = Told()
    async with Engine(spec, told, child=fake(tmp_path, deaths=4), pace=QUICK) as engine:
        await engine.ready()
    assert [line for line in told if "died" in line] == [
        f"tiny: the engine died (exit status 3 | a first word | out of memory); it starts again in {rest} s"
        for rest in ("0.01", "0.02", "0.04", "0.04")
    ]


async def test_a_child_that_cannot_even_be_started_is_tried_again(spec: EngineSpec, tmp_path: Path) -> None:
    told = Told()
    second = asyncio.Event()

    def tell(line: str) -> None:
        told(line)
        if "0.02 s" in line:
            second.set()

    async with Engine(spec, tell, child=[str(tmp_path / "nothing")], pace=QUICK):
        await second.wait()
    assert "it could not be started" in told[1]


async def test_killed_it_comes_back_at_the_same_address(spec: EngineSpec, tmp_path: Path) -> None:
    told = Told()
    died = asyncio.Event()

    def tell(line: str) -> None:
        told(line)
        if "died" in line:
            died.set()

    async with Engine(spec, tell, child=fake(tmp_path), pace=QUICK) as engine:
        await engine.ready()
        url, first = engine.url, engine._pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await died.wait()
        assert engine.phase is not Phase.READY
        await engine.ready()
        assert engine.url == url
        assert engine._pid not in {first, None}
    assert "(signal 9, Killed)" in next(line for line in told if "died" in line)


@pytest.mark.parametrize(
    ("previous", "served", "expected"),
    [(0, 0, 0.5), (0.5, 0, 1), (1, 59.9, 2), (16, 0, 30), (30, 5, 30), (30, 60, 0.5), (0.5, 3600, 0.5)],
)
def test_the_rest_doubles_up_to_half_a_minute_and_starts_anew_after_a_healthy_minute(
    previous: float, served: float, expected: float
) -> None:
    assert Pace().rest_after(previous, served) == expected


# ---- the end ---------------------------------------------------------------------------------------------------------


async def test_at_the_end_the_child_and_its_folder_are_gone(spec: EngineSpec, tmp_path: Path) -> None:
    async with Engine(spec, Told(), child=fake(tmp_path), pace=QUICK) as engine:
        await engine.ready()
        assert stat.S_IMODE(folder(engine).stat().st_mode) == 0o700
        child = engine._pid
        assert child is not None
    assert not alive(child)
    assert not folder(engine).exists()


async def test_an_error_of_the_body_ends_the_child_and_arrives_as_it_is(spec: EngineSpec, tmp_path: Path) -> None:
    child: int | None = None

    async def gateway() -> None:
        nonlocal child
        async with Engine(spec, Told(), child=fake(tmp_path), pace=QUICK) as engine:
            await engine.ready()
            child = engine._pid
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await gateway()
    assert child is not None
    assert not alive(child)


async def test_a_cancelled_body_ends_the_child(spec: EngineSpec, tmp_path: Path) -> None:
    engine = Engine(spec, Told(), child=fake(tmp_path), pace=QUICK)

    async def gateway() -> None:
        async with engine:
            await asyncio.Event().wait()

    task = asyncio.create_task(gateway())
    await engine.ready()
    child = engine._pid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert child is not None
    assert not alive(child)
    assert not folder(engine).exists()


async def test_a_fault_of_the_watching_task_ends_the_body_instead_of_going_unseen(
    spec: EngineSpec, tmp_path: Path
) -> None:
    def tell(line: str) -> None:
        raise RuntimeError(line)

    with pytest.raises(ExceptionGroup) as caught:
        async with Engine(spec, tell, child=fake(tmp_path), pace=QUICK) as engine:
            await engine.ready()
    assert caught.group_contains(RuntimeError, match="loading tiny")


def alive(pid: int) -> bool:
    """Whether the process exists; a child that was waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---- what no restart can mend ----------------------------------------------------------------------------------------


async def test_without_its_package_it_says_how_to_install_it(spec: EngineSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(EngineUnavailable, match=r"pip install '\.\[local\]'"):
        await Engine(spec, Told()).__aenter__()


@pytest.mark.parametrize("lacking", ["model_path", "chat_template"])
async def test_without_one_of_its_files_it_names_the_file(spec: EngineSpec, tmp_path: Path, lacking: str) -> None:
    gone = tmp_path / "gone"
    paths = {"model_path": spec.model_path, "chat_template": spec.model_path} | {lacking: gone}
    with pytest.raises(EngineUnavailable, match=f"{gone}, which is not there"):
        await Engine(EngineSpec(paths["model_path"], "tiny", chat_template=paths["chat_template"]), Told()).__aenter__()


@pytest.mark.parametrize("place", ["x" * 100, "of-somebody-else"])
def test_a_runtime_folder_that_cannot_hold_the_socket_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / place))
    made = private_folder()
    try:
        assert tmp_path not in made.parents
        assert len(str(made / "engine.sock")) <= 103
    finally:
        made.rmdir()


def test_the_runtime_folder_of_the_user_is_taken_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as place:  # pytest's own are too long for a socket
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        assert private_folder().parent == Path(place)


# ---- the real one ----------------------------------------------------------------------------------------------------

THINKING_TEMPLATE = """\
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}<think>
{{ m.reasoning_content or '' }}
</think>
{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}"""


@pytest.fixture(scope="module")
def model() -> Path:
    return ensure(default_cache(), Told())


# The gateway in a few lines: starts an engine, says so when it is in the wanted phase, and waits for its end.
GATEWAY = """
import asyncio, sys
from pathlib import Path
from slotline.upstream.engine import Engine, EngineSpec
model, phase, template = sys.argv[1:]
spec = EngineSpec(Path(model), "smollm2", slots=2, context=1024, chat_template=Path(template))
async def main():
    async with Engine(spec, report=lambda line: None) as engine:
        while engine._pid is None:
            await asyncio.sleep(0)
        if phase == "ready":
            await engine.ready()
        print(engine._pid, engine.url.removeprefix("unix:"), flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@dataclass(frozen=True)
class Real:
    """A real engine and the process that owns it."""

    gateway: subprocess.Popen[str]
    pid: int  # the engine's
    socket: Path


@contextmanager
def started(model: Path, template: Path, phase: str = "ready") -> Iterator[Real]:
    """A gateway process whose engine is in that phase; killed at the end."""
    command = [sys.executable, "-c", GATEWAY, str(model), phase, str(template)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as gateway:
        try:
            assert gateway.stdout is not None
            pid, socket = gateway.stdout.readline().split()
            yield Real(gateway, int(pid), Path(socket))
        finally:
            gateway.kill()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine") / "think.jinja"
    path.write_text(THINKING_TEMPLATE)
    return path


@pytest.fixture(scope="module")
def real(model: Path, template: Path) -> Iterator[Real]:
    """One engine for all that only ask it something."""
    with started(model, template) as engine:
        yield engine


async def ask(engine: Real, path: str, **body: object) -> Any:
    """GET, or POST if there is a body; JSON back."""
    connector = aiohttp.UnixConnector(str(engine.socket))
    async with (
        aiohttp.ClientSession(connector=connector, raise_for_status=True) as session,
        session.request("POST" if body else "GET", f"http://engine{path}", json=body or None) as answer,
    ):
        return await answer.json()


@pytest.mark.engine
async def test_it_has_the_slots_the_context_and_the_name_that_were_asked_for(real: Real) -> None:
    slots = await ask(real, "/slots")
    assert [slot["n_ctx"] for slot in slots] == [1024, 1024]
    models = await ask(real, "/v1/models")
    assert [entry["id"] for entry in models["data"]] == ["smollm2"]
    props = await ask(real, "/props")
    assert props["total_slots"] == 2
    assert props["endpoint_metrics"] is True


@pytest.mark.engine
async def test_with_a_thinking_template_it_thinks_first_and_says_so(real: Real) -> None:
    answer = await ask(
        real, "/v1/chat/completions", messages=[{"role": "user", "content": "Say hi."}], max_tokens=8, temperature=0
    )
    message = answer["choices"][0]["message"]
    assert message["reasoning_content"]
    assert not message["content"]


@pytest.mark.engine
async def test_signals_that_are_meant_for_the_whole_family_do_not_end_it(real: Real) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(real.pid, number)
    assert await ask(real, "/tokenize", content="still here")  # a restarted one would have been loading
    assert alive(real.pid)


@pytest.mark.engine
async def test_a_file_that_is_no_model_is_reported_in_llama_cpps_own_words(tmp_path: Path) -> None:
    path = tmp_path / "notes.gguf"
    path.write_text("just some text")
    died = asyncio.get_running_loop().create_future()

    def tell(line: str) -> None:
        if "died" in line and not died.done():
            died.set_result(line)

    async with Engine(EngineSpec(path, "notes"), tell):
        line = await died
    assert "exit status 1" in line
    # llama.cpp's log thread and the child share standard error: either may have the last words.
    assert "invalid magic" in line or f"{path} cannot be loaded" in line


@pytest.mark.engine
@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open and PR_SET_PDEATHSIG are Linux's")
@pytest.mark.parametrize(
    ("phase", "number"), [("ready", signal.SIGKILL), ("ready", signal.SIGTERM), ("loading", signal.SIGKILL)]
)
def test_however_the_gateway_ends_the_engine_ends_with_it(
    model: Path, template: Path, phase: str, number: signal.Signals
) -> None:
    with started(model, template, phase) as engine:
        pidfd = os.pidfd_open(engine.pid)
        engine.gateway.send_signal(number)
        try:
            dead, _, _ = select.select([pidfd], [], [], 10)
        finally:
            os.close(pidfd)
    assert dead, "the engine still runs 10 s after its gateway died"
    if phase == "ready":
        assert not engine.socket.parent.exists()
    else:
        sweep(engine.socket.parent)  # killed by the kernel while it loads, it could not tidy up
