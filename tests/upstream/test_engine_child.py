"""What the engine's process is told, and how it ends. The rest is seen from outside, in test_engine.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from slotline.upstream.engine_child import Order
from slotline.upstream.model_file import default_cache, ensure

ORDER = Order(
    parent=1, socket="/run/x/engine.sock", model="/models/ä b.gguf", alias="b", slots=2, context=64, threads=1
)


def test_an_order_is_one_line_and_reads_back_as_itself() -> None:
    line = ORDER.line()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert Order.read(line) == ORDER


def test_an_order_with_a_line_break_in_its_template_is_still_one_line() -> None:
    order = Order(parent=1, socket="s", model="m", alias="a", slots=1, context=1, threads=1, chat_template="a\nb")
    assert order.line().count(b"\n") == 1
    assert Order.read(order.line()) == order


@pytest.mark.parametrize("line", [b"{}\n", b'{"slots": 1, "colour": "red"}\n'])
def test_an_order_that_lacks_something_or_has_more_is_refused(line: bytes) -> None:
    with pytest.raises(TypeError):
        Order.read(line)


def test_a_process_whose_parent_died_before_it_could_ask_for_the_signal_ends_at_once() -> None:
    code = "from slotline.upstream.engine_child import end_with_parent; end_with_parent(9, 1); print('still here')"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def test_with_its_parent_alive_nothing_happens() -> None:
    code = (
        f"from slotline.upstream.engine_child import end_with_parent; end_with_parent(9, {os.getpid()}); print('here')"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (0, b"here\n")


CHILD = [sys.executable, "-P", "-m", "slotline.upstream.engine_child"]


@pytest.mark.engine
def test_at_the_end_of_the_leash_it_leaves_and_takes_its_folder_along() -> None:
    model = ensure(default_cache(), lambda _: None)
    folder = Path(tempfile.mkdtemp(prefix="slotline-"))  # pytest's own are too long for a socket
    order = Order(os.getpid(), str(folder / "engine.sock"), str(model), "m", 1, 64, 1)
    done = subprocess.run(CHILD, input=order.line(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    assert not folder.exists()


@pytest.mark.engine
def test_a_file_that_is_no_model_ends_it_with_1_and_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF")
    order = Order(os.getpid(), str(tmp_path / "engine.sock"), str(path), "m", 1, 64, 1)
    done = subprocess.run(CHILD, input=order.line(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"{path} cannot be loaded" in done.stderr.decode().splitlines()  # llama.cpp's own words may come after it
