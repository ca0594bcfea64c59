"""`arcopsd`: wires the parts together, and ends in order."""

import asyncio
import os
import pwd
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
import typer

from arcops import __version__
from arcops.config.paths import DEFAULT_INSTANCE, Paths
from arcops.core.decide.moves import ended
from arcops.core.errors import ArcopsError
from arcops.core.quantity import Known
from arcops.core.state import NOTHING_ORDERED, Goal, Order, State
from arcops.daemon.act import Actor
from arcops.daemon.after_stop import after_stop
from arcops.daemon.backend import LiveBackend
from arcops.daemon.checkpoint import NOWHERE, Checkpoints, Point
from arcops.daemon.clock import Clock
from arcops.daemon.feeds import Feeds
from arcops.daemon.handover import Handover
from arcops.daemon.heartbeat import beating
from arcops.daemon.journal import Journal
from arcops.daemon.looks import Looks
from arcops.daemon.loop import Loop
from arcops.daemon.observe import Observer
from arcops.daemon.orders import Orders
from arcops.daemon.premises import Premises
from arcops.daemon.reload import Reloader
from arcops.daemon.scraper import Scraper
from arcops.daemon.server import Api, ControlServer
from arcops.daemon.status import StatusWriter
from arcops.daemon.survival import Survival
from arcops.machine import linger, process, systemd
from arcops.machine.lock import DaemonLock
from arcops.machine.store import Store, StoreError

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


def assemble(paths: Paths, store: Store, clock: Clock, checkpoints: Checkpoints = NOWHERE) -> Parts:
    """The wiring: who knows whom."""
    loop: Loop | None = None

    def wake() -> None:
        if loop is not None:
            loop.wake()

    journal = Journal(store, clock, process.boot_id(), checkpoints)
    scraper, looks = Scraper(clock, wake), Looks(clock, wake)
    actor = Actor(paths, clock, journal, scraper, looks, wake, checkpoints)
    state = State(since=clock.monotonic(), progress_at=clock.monotonic())
    loop = Loop(state, clock, Observer(clock, actor, scraper, looks), actor, journal, checkpoints)
    orders = Orders(paths.instance, loop, actor, looks, os.environ)
    lingering = Lingering(clock)
    status = StatusWriter(
        paths.instance, clock, loop, actor, scraper, journal, lingering, Survival(paths, clock, lingering)
    )
    feeds = Feeds(paths, loop, actor, journal, status)
    handover = Handover(clock, paths.keeper_dir)
    reloader = Reloader(paths.instance, loop, orders)
    api = Api(paths.instance, os.getpid(), loop, orders, status, feeds, reloader, handover)
    server = ControlServer(api.app(), paths.socket)
    premises = Premises(paths, store, actor, server)
    status.tell_of(lambda: premises.troubles)
    return Parts(paths, clock, journal, scraper, looks, actor, loop, orders, status, feeds, server, handover, premises)


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


async def serve(paths: Paths, clock: Clock | None = None, checkpoints: Checkpoints = NOWHERE) -> None:
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
        parts = assemble(paths, store, clock or Clock(), checkpoints)
        held.enter_context(beating(lambda: parts.loop.turns))
        parts.handover.begin()
        try:
            if store.recovered is not None:
                parts.journal.event("trouble", parts.loop.state, store.recovered)
            for lock, path in guards:
                parts.premises.guard(lock, path)
            parts.server.listen()
            await _restore(parts)
            checkpoints.reach(Point.RESTORED)
            await _run(parts)
        finally:
            parts.server.close()
            await parts.journal.close()


async def _restore(parts: Parts) -> None:
    """What an earlier supervisor left: its backend, the order in force, and how often that has failed."""
    journal, loop = parts.journal, parts.loop
    try:
        disbelief = await parts.actor.adopt()
    except OSError as error:
        disbelief = f"what an earlier supervisor left cannot be taken up in full: {error}"
    if disbelief is not None:
        journal.event("trouble", loop.state, disbelief)
    order = await _order_of_backend(parts) or _order_in_force(journal)
    restored = replace(
        loop.state,
        reason="nothing is ordered to run" if order.goal is Goal.STOP else f"{order.profile} is ordered to run",
        order=order,
    )
    # A backend that lives is judged by what it does, not by a latch that was set before it; the count goes on.
    loop.state = journal.recalled(restored, latch=parts.actor.live is None)
    journal.event("daemon", loop.state, f"arcopsd {__version__} started (pid {os.getpid()})")


async def _order_of_backend(parts: Parts) -> Order | None:
    """The order to run the backend that lives, where the database that should say so was lost; None otherwise.

    A backend is only ever launched by an order, and an order to stop it would not have left it alone for long.
    """
    live, journal = parts.actor.live, parts.journal
    if live is None or not journal.knows_no_order or not _lives(live):
        return None
    launch = live.record.launch
    order = Order(journal.next_order_id(), Goal.RUN, launch.profile, launch)
    state = replace(parts.loop.state, order=order)
    try:
        await journal.write_order(order)
    except StoreError as error:
        journal.event(
            "trouble", state, f"order {order.id} cannot be written down: {error.reason}", live.record.launch_id
        )
    because = f"no order is on record, but launch {live.record.launch_id} of it runs"
    journal.event("order", state, f"order {order.id}: run {launch.profile} ({because})", live.record.launch_id)
    return order


def _lives(live: LiveBackend) -> bool:
    """Whether the backend is up or coming up. Where nobody can look it is not given up."""
    try:
        backend = live.look()
    except OSError:
        return True
    return not ended(backend) and (backend.main_alive or backend.keeper_alive)


def _order_in_force(journal: Journal) -> Order:
    """The last order that was accepted and did not fail; one that was not settled goes on where it was.

    Its profile, and the one that it would return to, are read later: a setup script may take a minute, and nobody
    should wait for it to hear that the supervisor is up.
    """
    stored = journal.order_in_force
    if stored is None:
        return NOTHING_ORDERED
    committed = stored.state == "committed"
    if stored.goal == "stop" or stored.profile is None:
        return Order(stored.id, Goal.STOP, drain=stored.drain, replaces=stored.replaces, committed=committed)
    order = Order(stored.id, Goal.RUN, stored.profile, resolving=True)
    if committed:
        return order
    before = journal.order_before(stored.id)
    previous = NOTHING_ORDERED
    if before is not None and before.goal == "run" and before.profile is not None:
        previous = Order(before.id, Goal.RUN, before.profile, resolving=True)
    return replace(
        order,
        drain=stored.drain,
        replaces=stored.replaces,
        committed=False,
        previous=previous,
        returns=stored.fallback is not None,
    )


async def _resolve(parts: Parts, order: Order) -> None:
    """Read the profiles of the order that was found, and of the one it returns to, beside the loop."""
    for one in (order, order.previous):
        if one is not None and one.resolving:
            parts.loop.resolved(await parts.orders.restored(one))


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
        systemd.notify("STOPPING=1")

    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, end)
    scraping = asyncio.create_task(parts.scraper.run())
    serving = asyncio.create_task(parts.server.run_on_socket())
    telling = asyncio.create_task(_tell_systemd(parts))
    tending = asyncio.create_task(_tend(parts))
    turning = asyncio.create_task(parts.loop.run())
    resolving = asyncio.create_task(_resolve(parts, parts.loop.state.order))
    try:
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
        beside = (telling, tending, scraping, resolving, turning)
        for task in beside:
            task.cancel()
        # Whatever one of them ends with, the others and what comes below have to end too.
        for outcome in await asyncio.gather(*beside, serving, return_exceptions=True):
            if isinstance(outcome, Exception):
                _log.error("ended by a fault", exc_info=outcome)
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


def configure_logging() -> None:
    """One line an event on stderr: for the journal, or for whoever runs it by hand."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR")),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


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
    configure_logging()
    asyncio.run(serve(Paths.of(instance)))


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
