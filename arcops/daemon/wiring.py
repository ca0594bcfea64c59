"""Who knows whom among the parts of a daemon."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from arcops.config.paths import Paths
from arcops.core.state import State
from arcops.daemon.act import Actor
from arcops.daemon.card_memory import KEPT_AS, CardMemory
from arcops.daemon.card_watch import CardWatch, into_history
from arcops.daemon.cards import CardBook, Concern, Sources
from arcops.daemon.checkpoint import NOWHERE, Checkpoints
from arcops.daemon.clock import Clock
from arcops.daemon.environments import Environments
from arcops.daemon.feeds import Feeds
from arcops.daemon.footprints import Footprints
from arcops.daemon.handover import Handover
from arcops.daemon.history import History
from arcops.daemon.host_watch import HostWatch
from arcops.daemon.journal import Journal
from arcops.daemon.lingering import Lingering
from arcops.daemon.looks import Looks
from arcops.daemon.loop import Loop
from arcops.daemon.observe import Observer
from arcops.daemon.orders import Orders
from arcops.daemon.own_log import OwnLog
from arcops.daemon.pasts import Pasts
from arcops.daemon.plans import Plans
from arcops.daemon.premises import Premises
from arcops.daemon.reload import Reloader
from arcops.daemon.routes import Api
from arcops.daemon.samples import Samples
from arcops.daemon.scraper import Scraper
from arcops.daemon.server import ControlServer
from arcops.daemon.status import StatusWriter
from arcops.daemon.survival import Survival
from arcops.machine import process
from arcops.machine.store import Store

T = TypeVar("T")


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
    environments: Environments


@dataclass(slots=True)
class _Heart:
    """What observes, decides and acts."""

    journal: Journal
    scraper: Scraper
    looks: Looks
    memory: CardMemory
    actor: Actor
    card_watch: CardWatch
    loop: Loop


def _heart(paths: Paths, store: Store, clock: Clock, checkpoints: Checkpoints) -> _Heart:
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
    return _Heart(journal, scraper, looks, memory, actor, card_watch, loop)


def assemble(
    paths: Paths, store: Store, clock: Clock, checkpoints: Checkpoints = NOWHERE, own_log: OwnLog | None = None
) -> Parts:
    """The wiring: who knows whom."""
    heart = _heart(paths, store, clock, checkpoints)
    journal, scraper, actor, loop = heart.journal, heart.scraper, heart.actor, heart.loop
    plans = Plans(str(paths.footprints), actor.ours)
    environments = Environments(paths, journal, loop, actor)
    orders = Orders(paths.instance, loop, actor, heart.looks, os.environ, plans, journal, environments)
    footprints = Footprints(str(paths.footprints), clock, plans, journal, loop, actor)
    actor.tell_served = partial(_tell_both, footprints.served, environments.served)
    lingering = Lingering(clock)
    survival = Survival(paths, clock, lingering)
    status = StatusWriter(paths.instance, clock, loop, actor, scraper, journal, lingering, survival)
    history = History(str(paths.history), clock, process.boot_id())
    cards = _book(heart, clock, status, footprints)
    status.show_cards(cards.glances)
    status.show_comparison(footprints.comparison)
    status.show_environment(environments.info)
    scraper.tell(
        lambda timed, profile, rate: history.scraped(timed, profile, loop.state.phase.value, rate, cards.figures())
    )
    feeds = Feeds(paths, loop, actor, journal, status, Samples(history, clock), own_log or OwnLog())
    handover = Handover(clock, paths.keeper_dir)
    reloader = Reloader(paths.instance, loop, orders)
    pasts = Pasts(actor, journal)
    api = Api(paths.instance, os.getpid(), loop, orders, status, feeds, reloader, handover, pasts, cards, environments)
    server = ControlServer(api.app(), paths.socket)
    premises = Premises(paths, store, actor, server)
    host_watch = HostWatch.of(clock, loop, actor, scraper, journal)
    status.tell_of(lambda: premises.troubles + history.troubles + host_watch.troubles)
    return Parts(
        paths=paths,
        clock=clock,
        journal=journal,
        scraper=scraper,
        looks=heart.looks,
        actor=actor,
        loop=loop,
        orders=orders,
        status=status,
        feeds=feeds,
        server=server,
        handover=handover,
        premises=premises,
        history=history,
        card_watch=heart.card_watch,
        cards=cards,
        host_watch=host_watch,
        footprints=footprints,
        environments=environments,
    )


def _book(heart: _Heart, clock: Clock, status: StatusWriter, footprints: Footprints) -> CardBook:
    """The cards' book, and where it has its news from."""
    watch = heart.card_watch
    return CardBook(
        clock,
        Sources(
            concern=partial(_concern, heart.loop, heart.actor, status),
            ours=heart.actor.ours,
            looked=heart.memory.census,
            baseline=heart.memory.baseline,
            incidents=watch.incidents,
            resets=watch.resets,
            watching=watch.watching,
            read=partial(_tell_both, watch.read, footprints.saw),
        ),
    )


def _tell_both(one: Callable[[T], None], other: Callable[[T], None], news: T) -> None:
    one(news)
    other(news)


def _concern(loop: Loop, actor: Actor, status: StatusWriter) -> Concern:
    """The cards of what runs, else of what is ordered to run."""
    live = actor.live
    launch = loop.state.order.wanted if live is None else live.record.launch
    if launch is None:
        return Concern()
    return Concern(launch.cards, live is not None, status.locks(), launch.allow_holders)
