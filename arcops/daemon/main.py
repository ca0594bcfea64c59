"""`arcopsd`: wires the parts together, and ends in order."""

import asyncio
import logging
import os
import pwd
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
import typer

from arcops import __version__
from arcops.config.paths import DEFAULT_INSTANCE, Paths
from arcops.core.cards.measures import CardReading
from arcops.core.errors import ArcopsError
from arcops.core.quantity import Known
from arcops.core.rates import Timed
from arcops.core.rollup import Tally
from arcops.core.state import State
from arcops.daemon.act import Actor
from arcops.daemon.after_stop import after_stop
from arcops.daemon.card_memory import KEPT_AS, CardMemory
from arcops.daemon.card_watch import CardWatch, into_history
from arcops.daemon.cards import CardBook, Concern, Sources
from arcops.daemon.checkpoint import NOWHERE, Checkpoints, Point
from arcops.daemon.clock import Clock
from arcops.daemon.feeds import Feeds
from arcops.daemon.footprints import Footprints
from arcops.daemon.handover import Handover, stopping
from arcops.daemon.heartbeat import beating
from arcops.daemon.history import History
from arcops.daemon.host_watch import HostWatch
from arcops.daemon.journal import Journal
from arcops.daemon.looks import Looks
from arcops.daemon.loop import Loop
from arcops.daemon.observe import Observer
from arcops.daemon.orders import Orders
from arcops.daemon.own_log import Library, OwnLog
from arcops.daemon.pasts import Pasts
from arcops.daemon.plans import Plans
from arcops.daemon.premises import Premises
from arcops.daemon.reload import Reloader
from arcops.daemon.restore import resolve, restore
from arcops.daemon.routes import Api
from arcops.daemon.samples import Samples
from arcops.daemon.scraper import Scraper
from arcops.daemon.server import ControlServer
from arcops.daemon.status import StatusWriter
from arcops.daemon.survival import Survival
from arcops.machine import linger, process, systemd
from arcops.machine.lock import DaemonLock
from arcops.machine.store import Store

LINGER_KEEPS = 30.0
"""Seconds for which the answer about lingering is kept."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Parts:
    """Everything that a running daemon is made of."""

    paths: Paths
    clock: Clock
    journal: Journal
    scraper: Scraper
    looks: Looks
    actor: Actor
    loop: Loop
    orders: Orders
    status: StatusWriter
    feeds: Feeds
    server: ControlServer
    handover: Handover
    premises: Premises
    history: History
    card_watch: CardWatch
    cards: CardBook
    host_watch: HostWatch
    footprints: Footprints


def assemble(
    paths: Paths, store: Store, clock: Clock, checkpoints: Checkpoints = NOWHERE, own_log: OwnLog | None = None
) -> Parts:
    """The wiring: who knows whom."""
    loop: Loop | None = None

    def wake() -> None:
        if loop is not None:
            loop.wake()

    boot_id = process.boot_id()
    journal = Journal(store, clock, boot_id, checkpoints)
    memory = CardMemory(boot_id, journal.kept(KEPT_AS), partial(journal.keep, KEPT_AS))
    scraper, looks = Scraper(clock, wake), Looks(clock, wake, memory)
    actor = Actor(paths, clock, journal, scraper, looks, wake, checkpoints)
    state = State(since=clock.monotonic(), progress_at=clock.monotonic())
    card_watch = CardWatch(clock, partial(into_history, lambda: loop, actor, journal), wake)
    observer = Observer(clock, actor, scraper, looks, card_watch.befell)
    loop = Loop(state, clock, observer, actor, journal, checkpoints)
    plans = Plans(str(paths.footprints), actor.ours)
    orders = Orders(paths.instance, loop, actor, looks, os.environ, plans, journal)
    footprints = Footprints(str(paths.footprints), clock, plans, journal, loop, actor)
    actor.tell_served = footprints.served
    lingering = Lingering(clock)
    status = StatusWriter(
        paths.instance, clock, loop, actor, scraper, journal, lingering, Survival(paths, clock, lingering)
    )
    history = History(str(paths.history), clock, process.boot_id())
    cards = CardBook(
        clock,
        Sources(
            concern=partial(_concern, loop, actor, status),
            ours=actor.ours,
            looked=memory.census,
            baseline=memory.baseline,
            incidents=card_watch.incidents,
            resets=card_watch.resets,
            watching=card_watch.watching,
            read=partial(_tell_both, card_watch.read, footprints.saw),
        ),
    )
    status.show_cards(cards.glances)
    status.show_comparison(footprints.comparison)
    scraper.tell(
        lambda timed, profile, rate: history.scraped(timed, profile, loop.state.phase.value, rate, cards.figures())
    )
    feeds = Feeds(paths, loop, actor, journal, status, Samples(history, clock), own_log or OwnLog())
    handover = Handover(clock, paths.keeper_dir)
    reloader = Reloader(paths.instance, loop, orders)
    api = Api(
        paths.instance, os.getpid(), loop, orders, status, feeds, reloader, handover, Pasts(actor, journal), cards
    )
    server = ControlServer(api.app(), paths.socket)
    premises = Premises(paths, store, actor, server)
    host_watch = HostWatch.of(clock, loop, actor, scraper, journal)
    status.tell_of(lambda: premises.troubles + history.troubles + host_watch.troubles)
    return Parts(
        paths,
        clock,
        journal,
        scraper,
        looks,
        actor,
        loop,
        orders,
        status,
        feeds,
        server,
        handover,
        premises,
        history,
        card_watch,
        cards,
        host_watch,
        footprints,
    )


def _tell_both(one: Callable[[CardReading], None], other: Callable[[CardReading], None], reading: CardReading) -> None:
    one(reading)
    other(reading)


def _concern(loop: Loop, actor: Actor, status: StatusWriter) -> Concern:
    """The cards of what runs, else of what is ordered to run."""
    live = actor.live
    launch = loop.state.order.wanted if live is None else live.record.launch
    if launch is None:
        return Concern()
    return Concern(launch.cards, live is not None, status.locks(), launch.allow_holders)


class Lingering:
    """Whether this user's services survive a logout, looked up now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._user = _user()  # once, and before the loop turns: a user database in the network may take its time
        self._at = float("-inf")
        self._value: bool | None = None

    def __call__(self) -> bool | None:
        now = self._clock.monotonic()
        if now - self._at > LINGER_KEEPS:
            self._at = now
            reading = linger.lingering(self._user)
            self._value = reading.value if isinstance(reading, Known) else None
        return self._value


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


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
