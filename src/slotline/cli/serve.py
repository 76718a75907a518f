"""`slotline serve`: the gateway."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from slotline import __version__
from slotline.cli.check import as_json, summary, url_rows
from slotline.cli.hangups import Hangups
from slotline.cli.worker import Leash
from slotline.cli.workers import WorkerFailed, WorkersRefused, run_workers
from slotline.cli.workers import check as check_workers
from slotline.config import Config, ConfigError, UpstreamFlags, embedded, find, for_upstreams, read, with_address
from slotline.core.kind import Kind
from slotline.observe import log
from slotline.upstream.beside import beside
from slotline.upstream.engine import EngineSpec, EngineUnavailable
from slotline.upstream.model_file import ModelFileError, default_cache
from slotline.upstream.model_file import find as find_model
from slotline.wiring import CannotListen, Report, gateway

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_KINDS = ("auto", *(kind.value for kind in Kind))


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), metavar="FILE", help="The configuration file.")
@click.option("--host", help="Where to listen; overrides the configuration.")
@click.option("--port", type=click.IntRange(0, 65535), help="0: any free port.")
@click.option("--upstream", "urls", multiple=True, metavar="URL", help="An upstream, without a file; repeatable.")
@click.option("--slots", multiple=True, type=click.IntRange(1), help="Of the upstream: how many requests run at once.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help="Of the upstream: what serves there.")
@click.option("--open", "is_open", is_flag=True, help="Whoever reaches the port may use the gateway; see --host.")
@click.option("--workers", type=click.IntRange(1), default=1, help="Processes that share one line.", metavar="N")
@click.option("--worker", is_flag=True, hidden=True, help="This is one of them.")
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
@click.option("-q", "--quiet", is_flag=True, help="Log warnings and errors only.")
def serve(  # noqa: PLR0913 - one for each option
    *,
    path: Path | None,
    host: str | None,
    port: int | None,
    urls: tuple[str, ...],
    slots: tuple[int, ...],
    kinds: tuple[str, ...],
    is_open: bool,
    workers: int,
    worker: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Run the gateway.

    Without --config and --upstream: ./slotline.toml, then the file in the user's configuration folder, then the
    embedded engine with its small model. One --slots or --kind holds for every --upstream; as many as there are
    upstreams hold for one each, in order.
    """
    _refuse_what_would_be_ignored(path, urls, slots, kinds)
    log.set_up(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
    leash: Leash | None = None
    try:
        if worker:
            leash = Leash.taken()
        file = None if urls else find(path)
        address = partial(with_address, new_host=host, new_port=port, new_open=is_open or None)

        def configured() -> Config:
            config = address(embedded() if file is None else read(file))
            return config if leash is None else leash.order.over(config)

        hangups = Hangups(None if file is None else configured)
        config = address(for_upstreams(_flags(urls, slots, kinds))) if urls else configured()
        say = _be_quiet if quiet or worker else _say
        if workers > 1 and leash is None:
            check_workers(config, workers)
            asyncio.run(run_workers(config, workers, hangups, partial(_present, config, say=say)))
            return
        config = config if leash is None else leash.order.over(config)
        engine = _engine(config, say)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(config, engine, hangups, say, leash))
    except WorkerFailed as failed:
        sys.exit(max(1, failed.status))  # it has said why
    except (ConfigError, EngineUnavailable, ModelFileError, CannotListen, WorkersRefused, OSError) as error:
        click.echo(f"slotline: {error}", err=True)
        sys.exit(1)
    finally:
        if leash is not None:
            leash.tidy()


def _refuse_what_would_be_ignored(
    path: Path | None, urls: tuple[str, ...], slots: tuple[int, ...], kinds: tuple[str, ...]
) -> None:
    if urls and path is not None:
        raise click.UsageError("--upstream takes the place of a configuration file: give one or the other")
    for option, given in (("--slots", slots), ("--kind", kinds)):
        if given and not urls:
            raise click.UsageError(f"{option} belongs to --upstream; without one it stands in the configuration file")


async def _run(config: Config, engine: EngineSpec | None, hangups: Hangups, say: Report, leash: Leash | None) -> None:
    """Serves until SIGTERM or SIGINT. One that comes before it is ready, and any second one, ends it at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    if main is None:
        raise RuntimeError("runs as a task")

    def on_signal(act: Callable[[], object]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, act)

    on_signal(main.cancel)
    hangups.listen(loop)
    if leash is not None:
        leash.hold(loop)
    try:
        async with gateway(config, engine, say, listener=None if leash is None else leash.listener()) as running:
            if leash is None:
                _present(running.config, running.url, say=say)
            else:
                _tell(running.url)
            on_signal(stop.set)
            async with beside(hangups.reload(running)):
                await stop.wait()
            on_signal(main.cancel)
            drain = running.config.server.drain
            say(f"shutting down: running answers may end within {drain:g} s")
            await running.relay.drain(drain)
    except asyncio.CancelledError:
        say("ended at once")


def _present(config: Config, url: str, *, say: Report) -> None:
    """What holds and where to go, once: a table for people, a line of the log for programs; then that all is ready."""
    urls = url_rows(url, config.server.prefix)
    if log.for_people(sys.stderr):
        say(summary(config) + "\n")
        say("\n".join(f"{what:<15}  {url}" for what, url in urls))
    else:
        fields = {"version": __version__, "urls": dict(urls), "configuration": as_json(config)}
        _log.info("started", extra={"fields": fields})
    _tell(url)


def _tell(url: str) -> None:
    click.echo(f"listening on {url}")
    sys.stdout.flush()


def _engine(config: Config, say: Report) -> EngineSpec | None:
    """What the embedded engine is to run, with its model's file at hand; None where there is no such engine."""
    wanted = config.engine
    if wanted is None:
        return None
    file, name = find_model(wanted.model, default_cache(), say)
    return EngineSpec(file, name, wanted.slots, wanted.context, wanted.threads)


def _flags(urls: tuple[str, ...], slots: tuple[int, ...], kinds: tuple[str, ...]) -> list[UpstreamFlags]:
    """The upstreams of the command line, each with its own --slots and --kind."""
    rows = zip(urls, _each("--slots", slots, urls), _each("--kind", kinds, urls), strict=True)
    return [UpstreamFlags(*row) for row in rows]


def _each(option: str, given: tuple[_T, ...], urls: tuple[str, ...]) -> tuple[_T | None, ...]:
    if len(given) == len(urls):
        return given
    if len(given) > 1:
        many = f"{len(given)} times for {len(urls)} --upstream"
        raise click.UsageError(f"{option} stands {many}: give it once, or once for each")
    return (given[0] if given else None,) * len(urls)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop: the standard one, or uvloop's with `SLOTLINE_LOOP=uvloop`."""
    name = os.environ.get("SLOTLINE_LOOP", "asyncio")
    if name == "asyncio":
        return None
    if name != "uvloop":
        raise click.UsageError(f"SLOTLINE_LOOP: expected asyncio or uvloop, got {name!r}")
    try:
        import uvloop  # noqa: PLC0415 - optional: the package's extra `fast`
    except ImportError:
        raise click.UsageError("SLOTLINE_LOOP=uvloop needs the package uvloop: pip install 'slotline[fast]'") from None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _say(text: str) -> None:
    """Progress for people: on standard error, so that a pipe gets the one line that matters."""
    with suppress(OSError):  # a terminal that has gone is no reason to end otherwise
        click.echo(text, err=True)


def _be_quiet(_: str) -> None:
    """Progress for nobody."""
