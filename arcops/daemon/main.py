"""`arcopsd`: runs the parts together, and ends in order."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import structlog
import typer

from arcops import __version__
from arcops.config.paths import DEFAULT_INSTANCE, Paths
from arcops.core.errors import ArcopsError
from arcops.core.rates import Timed
from arcops.core.rollup import Tally
from arcops.daemon.after_stop import after_stop
from arcops.daemon.checkpoint import NOWHERE, Checkpoints, Point
from arcops.daemon.clock import Clock
from arcops.daemon.handover import stopping
from arcops.daemon.heartbeat import beating
from arcops.daemon.own_log import Library, OwnLog
from arcops.daemon.restore import resolve, restore
from arcops.daemon.wiring import Parts, assemble
from arcops.machine import systemd
from arcops.machine.lock import DaemonLock
from arcops.machine.store import Store

_log = structlog.get_logger(__name__)


async def serve(
    paths: Paths, clock: Clock | None = None, checkpoints: Checkpoints = NOWHERE, own_log: OwnLog | None = None
) -> None:
    """Run the daemon until it is told to end. Raises ArcopsError where it cannot begin."""
    paths.make()
    guards: list[tuple[DaemonLock, Path]] = []
    with ExitStack() as held:
        # Two, because neither directory settles the other: a second login may bring another runtime directory.
        for path in (paths.daemon_lock, paths.state_lock):
            lock = DaemonLock()
            lock.acquire(str(path))
            held.callback(lock.release)
            guards.append((lock, path))
        store = Store.open(str(paths.database))
        held.callback(store.close)
        parts = assemble(paths, store, clock or Clock(), checkpoints, own_log)
        held.enter_context(beating(lambda: parts.loop.turns))
        parts.handover.begin()
        try:
            if store.recovered is not None:
                parts.journal.event("trouble", parts.loop.state, store.recovered)
            for lock, path in guards:
                parts.premises.guard(lock, path)
            parts.server.listen()
            await restore(parts.loop, parts.actor, parts.journal)
            await parts.history.restore(partial(_resume, parts))
            checkpoints.reach(Point.RESTORED)
            await _run(parts)
        finally:
            parts.server.close()
            await parts.journal.close()
            await parts.history.close()


async def _run(parts: Parts) -> None:
    """The loop, the scraper and the server side by side; the end of the loop ends the others."""
    running = asyncio.get_running_loop()
    asked = 0

    def end() -> None:
        nonlocal asked
        asked += 1
        if parts.handover.keeps():
            parts.loop.keep()
        else:
            parts.loop.leave(None if asked == 1 else 0.0)
        live = parts.actor.live
        systemd.notify(stopping(None if live is None else live.record.launch.limits))

    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, end)
    scraping = asyncio.create_task(parts.scraper.run())
    serving = asyncio.create_task(parts.server.run_on_socket())
    telling = asyncio.create_task(_tell_systemd(parts))
    tending = asyncio.create_task(_tend(parts))
    keeping = asyncio.create_task(_keep_history(parts))
    sampling = asyncio.create_task(_sample_cards(parts))
    turning = asyncio.create_task(parts.loop.run())
    resolving = asyncio.create_task(resolve(parts.loop, parts.orders, parts.loop.state.order))
    try:
        parts.card_watch.begin()
        parts.host_watch.begin()
        parts.footprints.begin()
        parts.environments.begin()
        systemd.notify("READY=1")
        _log.info("ready", socket=str(parts.paths.socket), pid=os.getpid())
        done, _ = await asyncio.wait({turning, serving, scraping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        parts.journal.event("daemon", parts.loop.state, f"arcopsd ends ({parts.loop.state.phase.value})")
        parts.feeds.closing.set()
        parts.loop.wake()
        parts.server.should_exit = True
        beside = (telling, tending, keeping, sampling, scraping, resolving, turning)
        for task in beside:
            task.cancel()
        # Whatever one of them ends with, the others and what comes below have to end too.
        for outcome in await asyncio.gather(*beside, serving, return_exceptions=True):
            if isinstance(outcome, Exception):
                _log.error("ended by a fault", exc_info=outcome)
        parts.card_watch.close()
        parts.host_watch.close()
        parts.footprints.close()
        parts.environments.close()
        parts.actor.close()
        await parts.looks.close()
        await parts.scraper.leave()
        if parts.actor.live is not None:
            parts.actor.live.detach()


async def _tend(parts: Parts) -> None:
    """Put back what somebody takes away from the file system, and say so."""
    try:
        await parts.premises.run(lambda news: parts.journal.event("trouble", parts.loop.state, news))
    except Exception:
        # Nobody waits for this task: without a word its end would be seen by the lack of its work only.
        _log.exception("premises")
        raise


def _resume(parts: Parts, scrapes: Sequence[Timed], tallies: Sequence[Tally]) -> None:
    """Rates and plots reach back over the supervisor's own restart: the counters of a backend that lives went on."""
    live = parts.actor.live
    launch_id = None if live is None else live.record.launch_id
    parts.scraper.resume([timed for timed in scrapes if timed.launch_id == launch_id], tallies)


async def _keep_history(parts: Parts) -> None:
    """Write the numbers' past down; a fault of ours in it costs the past, and is told."""
    try:
        await parts.history.run(lambda news: parts.journal.event("trouble", parts.loop.state, news))
    except Exception:
        _log.exception("history")
        raise


async def _sample_cards(parts: Parts) -> None:
    """Read the cards; a fault of ours in it costs their numbers."""
    try:
        await parts.cards.run()
    except Exception:
        _log.exception("cards")
        raise


async def _tell_systemd(parts: Parts) -> None:
    """STATUS= for whoever looks with systemctl."""
    told = ""
    woken = parts.loop.listen()
    try:
        while True:
            state = parts.loop.state
            text = f"{state.order.wanted_profile or 'no profile'}: {state.phase.value}, {state.reason}"
            if text != told:
                told = text
                systemd.notify(f"STATUS={text[:200]}")
            woken.clear()
            await woken.wait()
    finally:
        parts.loop.unlisten(woken)


def configure_logging() -> OwnLog:
    """One line an event on stderr: for the journal, or for whoever runs it by hand. The last ones are kept as well."""
    own_log = OwnLog()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            own_log,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR")),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.getLogger().addHandler(Library())
    return own_log


def arcopsd(
    instance: str = typer.Option(DEFAULT_INSTANCE, "--instance", "-i", envvar="ARCOPS_INSTANCE", metavar="NAME"),
    version: bool = typer.Option(False, "--version", help="Print the version."),
    unit: str | None = typer.Option(
        None, "--after-stop", metavar="UNIT", help="For ExecStopPost=: say how UNIT ended, and end what it left."
    ),
) -> None:
    """Supervise one vLLM server: own the card's lock, run the ordered profile, say why."""
    if version:
        sys.stdout.write(f"arcopsd {__version__}\n")
        return
    if unit is not None:
        after_stop(Paths.of(instance), unit, os.environ)
        return
    own_log = configure_logging()
    asyncio.run(serve(Paths.of(instance), own_log=own_log))


def run() -> None:
    """The entry point of `arcopsd`."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command()(arcopsd)
    try:
        app(prog_name="arcopsd")
    except ArcopsError as error:
        sys.stderr.write(f"arcopsd: {error}\n")
        raise SystemExit(int(error.exit_code)) from None


if __name__ == "__main__":
    run()
