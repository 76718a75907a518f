"""The model file: fetched once, whole or not at all, and never taken on trust."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slotline.upstream import model_file
from slotline.upstream.model_file import ModelFileError, PackagedModel, ensure, find

CONTENT = b"GGUF" + bytes(range(256)) * 64
TINY = PackagedModel(
    name="tiny",
    package="slotline-test-tiny",
    version="1.0",
    member="slotline_test_tiny/tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
)


class Told(list[str]):
    """Collects what is reported; a call is a line."""

    def __call__(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels as the only place where pip looks, whatever this machine's own set-up says."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def publish(index: Path, content: bytes = CONTENT, *, member: str = TINY.member) -> None:
    """Put a wheel of TINY into the index, made by hand: pip reads its name, its metadata and its record."""
    info = "slotline_test_tiny-1.0.dist-info"
    files = {
        member: content,
        f"{info}/METADATA": (
            b"Metadata-Version: 2.1\nName: slotline-test-tiny\nVersion: 1.0\nRequires-Dist: never-to-be-had\n"
        ),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=") for name, data in files.items()
    }
    files[f"{info}/RECORD"] = b"".join(
        b"%s,sha256=%s,%d\n" % (name.encode(), digests[name], len(data)) for name, data in files.items()
    )
    with zipfile.ZipFile(index / "slotline_test_tiny-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)


def only_the_model_and_its_notes(cache: Path) -> bool:
    """No half file, no scratch folder."""
    return {path.name for path in cache.iterdir()} <= {"tiny.gguf", "tiny.gguf.checked", "tiny.gguf.lock"}


def test_the_file_is_taken_out_of_the_package_that_pip_brings_without_its_dependencies(
    index: Path, tmp_path: Path
) -> None:
    publish(index)
    told = Told()
    path = ensure(tmp_path / "cache", told, TINY)
    assert path.read_bytes() == CONTENT
    assert told == ["fetching tiny (0 MB, once) …"]
    assert only_the_model_and_its_notes(tmp_path / "cache")


def test_a_second_start_needs_no_network_and_does_not_read_the_file_again(index: Path, tmp_path: Path) -> None:
    publish(index)
    path = ensure(tmp_path, Told(), TINY)
    (index / "slotline_test_tiny-1.0-py3-none-any.whl").unlink()
    before = path.stat()
    path.write_bytes(CONTENT[::-1])  # what only a reader would notice
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    told = Told()
    assert ensure(tmp_path, told, TINY) == path
    assert told == []


def test_a_file_put_there_by_hand_is_checked_once_and_taken(index: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    told = Told()
    assert ensure(tmp_path, told, TINY).read_bytes() == CONTENT
    assert told == [f"checking {tmp_path / 'tiny.gguf'} …"]
    assert ensure(tmp_path, told, TINY) == tmp_path / "tiny.gguf"
    assert len(told) == 1


def test_a_damaged_file_in_the_cache_is_replaced(index: Path, tmp_path: Path) -> None:
    publish(index)
    path = ensure(tmp_path, Told(), TINY)
    path.write_bytes(CONTENT[:-1])
    told = Told()
    assert ensure(tmp_path, told, TINY).read_bytes() == CONTENT
    assert told[1] == f"{path} is damaged and will be replaced"


def test_a_package_with_another_file_is_refused_and_nothing_of_it_is_kept(index: Path, tmp_path: Path) -> None:
    publish(index, CONTENT + b"!")
    with pytest.raises(ModelFileError, match=f"SHA-256 .*, not {TINY.sha256}; it was not kept"):
        ensure(tmp_path / "cache", Told(), TINY)
    assert not (tmp_path / "cache/tiny.gguf").exists()
    assert only_the_model_and_its_notes(tmp_path / "cache")


def test_a_package_without_the_file_is_refused(index: Path, tmp_path: Path) -> None:
    publish(index, member="slotline_test_tiny/other.gguf")
    with pytest.raises(ModelFileError, match=r"no whole slotline_test_tiny/tiny\.gguf"):
        ensure(tmp_path, Told(), TINY)


def test_without_a_network_the_error_has_pips_words_and_the_way_by_hand(index: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(ModelFileError) as caught:
        ensure(cache, Told(), TINY)
    text = str(caught.value)
    assert "pip could not fetch slotline-test-tiny 1.0" in text
    assert "No matching distribution found" in text
    assert f"put it at {cache / 'tiny.gguf'}" in text
    assert only_the_model_and_its_notes(cache)


def test_without_any_pip_the_error_says_how_to_get_one(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelFileError, match="-m ensurepip"):
        ensure(tmp_path / "cache", Told(), TINY)


def test_without_pip_of_its_own_any_other_pip_will_do(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(index)
    other = tmp_path / "bin/pip3"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n')
    other.chmod(0o755)
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", str(other.parent))
    assert ensure(tmp_path / "cache", Told(), TINY).read_bytes() == CONTENT


def test_an_installed_package_is_copied_without_being_imported(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site/slotline_test_tiny"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('this would want its dependencies')")
    (package / "tiny.gguf").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(package.parent))
    told = Told()
    assert ensure(tmp_path / "cache", told, TINY).read_bytes() == CONTENT
    assert told == ["copying tiny from the installed package slotline-test-tiny …"]


def test_what_a_killed_fetch_left_behind_is_cleared(index: Path, tmp_path: Path) -> None:
    publish(index)
    (tmp_path / "tiny.gguf.part").write_bytes(b"half")
    (tmp_path / "tiny.gguf.fetch").mkdir()
    (tmp_path / "tiny.gguf.fetch/half.whl").write_bytes(b"half")
    assert ensure(tmp_path, Told(), TINY).read_bytes() == CONTENT
    assert not (tmp_path / "tiny.gguf.part").exists()
    assert not (tmp_path / "tiny.gguf.fetch").exists()


def test_of_two_at_once_one_fetches_and_the_other_waits_for_it(index: Path, tmp_path: Path) -> None:
    publish(index)
    second_waits = threading.Event()
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if "another process" in line:
            second_waits.set()

    def hold_and_fetch(line: str) -> None:
        told.append(line)
        second.start()
        assert second_waits.wait(30)

    second = threading.Thread(target=ensure, args=(tmp_path, tell, TINY))
    path = ensure(tmp_path, hold_and_fetch, TINY)
    second.join(30)
    assert path.read_bytes() == CONTENT
    assert told == ["fetching tiny (0 MB, once) …", "another process is fetching the model; waiting for it …"]


def test_a_cache_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFileError, match=f"the cache {tmp_path}/file/cache cannot be written"):
        ensure(tmp_path / "file/cache", Told(), TINY)


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("/var/cache/me", "/var/cache/me/slotline"),
        ("relative", "{home}/.cache/slotline"),
        ("", "{home}/.cache/slotline"),
    ],
)
def test_the_cache_is_where_the_freedesktop_standard_puts_it(
    variable: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", variable)
    assert model_file.default_cache() == Path(expected.format(home=tmp_path))


def test_a_model_of_ones_own_is_served_under_its_file_name(tmp_path: Path) -> None:
    own = tmp_path / "qwen3-0.6b.gguf"
    own.write_bytes(b"GGUF...")
    assert find(str(own), tmp_path / "cache", Told()) == (own, "qwen3-0.6b")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"PK.."), "does not begin with GGUF"),
    ],
)
def test_a_model_that_is_no_gguf_file_is_an_error_that_names_the_setting(
    make: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.gguf"
    make(path)
    with pytest.raises(ModelFileError, match=rf'\[engine\] model = "{path}".*{reason}'):
        find(str(path), tmp_path, Told())


@pytest.mark.engine
def test_the_small_model_is_found_under_its_name() -> None:
    path, name = find("smollm2", model_file.default_cache(), Told())
    assert name == "smollm2"
    assert path.stat().st_size == model_file.SMOLLM2.size
    assert model_file.sha256(path) == model_file.SMOLLM2.sha256
