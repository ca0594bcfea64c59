"""The state in words for clients: `wire.Status` from what the loop, the actor and the scraper know."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from arcops import __version__, wire
from arcops.core.budget.comparison import Comparison
from arcops.core.decide.sight import remarks
from arcops.core.phase import LATCHED, Phase
from arcops.core.quantity import Known
from arcops.core.rates import Rates
from arcops.core.state import Goal, Order, Outcome, State
from arcops.core.world import World
from arcops.daemon.act import Actor
from arcops.daemon.backend import LiveBackend
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.loop import Loop
from arcops.daemon.scraper import Scraper

CLOCK_DRIFTS = 5.0
"""Seconds by which the wall clock is corrected without a word; more is a step, and earlier times move with it."""


class StatusWriter:
    """Renders statuses; holds nothing but its sources."""

    def __init__(
        self,
        instance: str,
        clock: Clock,
        loop: Loop,
        actor: Actor,
        scraper: Scraper,
        journal: Journal,
        lingering: Callable[[], bool | None],
        survival: Callable[[], wire.SurvivalInfo],
    ) -> None:
        self._instance = instance
        self._clock = clock
        self._loop = loop
        self._actor = actor
        self._scraper = scraper
        self._journal = journal
        self._lingering = lingering
        self._survival = survival
        self._started_at = clock.wall()
        self._troubles: Callable[[], tuple[str, ...]] = tuple
        self._cards: Callable[[], tuple[wire.CardGlance, ...]] = tuple
        self._comparison: Callable[[str], Comparison | None] = lambda _: None
        self._environment: Callable[[], wire.EnvironmentInfo | None] = lambda: None

    def tell_of(self, troubles: Callable[[], tuple[str, ...]]) -> None:
        """Show these beside the others."""
        self._troubles = troubles

    def show_cards(self, glances: Callable[[], tuple[wire.CardGlance, ...]]) -> None:
        """Show these cards."""
        self._cards = glances

    def show_comparison(self, comparison: Callable[[str], Comparison | None]) -> None:
        """Show this of the backend: its plan held against what vLLM reports, by launch id."""
        self._comparison = comparison

    def show_environment(self, environment: Callable[[], wire.EnvironmentInfo | None]) -> None:
        """Show this of what runs."""
        self._environment = environment

    def status(self, window: float) -> wire.Status:
        """Everything, with rates over the last `window` seconds."""
        state, live = self._loop.state, self._actor.live
        numbers = self._scraper.rates(window)
        wall = self._clock.to_wall
        return wire.Status(
            instance=self._instance,
            at=self._clock.wall(),
            daemon=wire.DaemonInfo(
                pid=os.getpid(), version=__version__, started_at=self._started_at, prefix=sys.prefix
            ),
            phase=state.phase.value,
            phase_code=state.phase.code,
            since=wall(state.since),
            reason=state.reason,
            order=_order(state.order),
            backend=None if live is None else self._backend(live),
            start=self._start(state, live),
            locks=self.locks(),
            failure=_failure(state),
            retry_at=None if state.retry_at is None else wall(state.retry_at),
            settled=tuple(_outcome(outcome) for outcome in state.settled),
            rates=self._in_wall_time(numbers),
            rates_age=None if numbers.at is None else max(0.0, self._clock.monotonic() - numbers.at),
            window=window,
            lingering=self._lingering(),
            survival=self._survival(),
            trouble=self._trouble(live),
            notes=notes(self._loop.world) + self._difference(live),
            environment=self._environment(),
            cards=self._cards(),
        )

    def history(self, seconds: float) -> wire.History:
        """The last `seconds` seconds, a point a second."""
        oldest = self._clock.monotonic() - seconds
        points = tuple(
            wire.HistoryPoint(
                at=self._clock.to_wall(point.at),
                running=point.running,
                waiting=point.waiting,
                kv_usage=point.kv_usage,
                prefill=point.prefill,
                decode=point.decode,
            )
            for point in self._scraper.points
            if point.at >= oldest
        )
        return wire.History(points=points)

    def _backend(self, live: LiveBackend) -> wire.BackendInfo:
        world = self._loop.world
        seen = None if world is None else world.backend
        launch, ready_at = live.record.launch, live.record.ready_at
        compared = self._comparison(live.record.launch_id)
        moved = self._clock.to_wall(live.record.spawned_monotonic) - live.record.spawned_at
        if abs(moved) < CLOCK_DRIFTS:
            moved = 0.0
        return wire.BackendInfo(
            launch_id=live.record.launch_id,
            profile=launch.profile,
            served_name=launch.served_name,
            url=f"http://{f'[{launch.host}]' if ':' in launch.host else launch.host}:{launch.port}",
            pid=None if live.record.main is None else live.record.main.pid,
            processes=None if seen is None else len(seen.processes),
            spawned_at=live.record.spawned_at + moved,
            ready_at=None if ready_at is None else ready_at + moved,
            enclosure=f"{live.record.enclosure.kind.value} {live.record.enclosure.name}",
            log_path=live.record.log_path,
            speculates=launch.speculates,
            adopted=live.adopted,
            max_running=_max_running(launch.argv),
            planned_tokens=None if compared is None else compared.planned,
            reported_tokens=None if compared is None else compared.reported,
            fresh_caches=live.record.fresh_caches,
        )

    def _difference(self, live: LiveBackend | None) -> tuple[str, ...]:
        compared = None if live is None else self._comparison(live.record.launch_id)
        return () if compared is None or compared.equal else (compared.words,)

    def _start(self, state: State, live: LiveBackend | None) -> wire.StartInfo | None:
        if live is None or state.phase not in (Phase.STARTING, Phase.CHECKING):
            return None
        progress = live.progress
        return wire.StartInfo(
            stage=progress.stage.value,
            fraction=progress.fraction,
            detail=progress.detail,
            elapsed=self._clock.monotonic() - live.record.spawned_monotonic,
            usual=self._journal.usual_load_time(live.record.launch.profile),
        )

    def _trouble(self, live: LiveBackend | None) -> tuple[str, ...]:
        found = (
            self._journal.trouble,
            self._actor.trouble,
            None if live is None else live.trouble,
            _standing_in(self._loop.state),
            self._loop.state.order.unguarded or None,
        )
        remarks = tuple(remark.words for remark in self._scraper.remarks)
        return tuple(trouble for trouble in found if trouble is not None) + remarks + self._troubles()

    def locks(self) -> tuple[str, ...]:
        """What this process holds, and what the backend of an earlier supervisor was seen to hold for us."""
        live, held, world = self._actor.live, self._actor.locks.held, self._loop.world
        if live is None or world is None or world.backend is None or world.backend.launch_id != live.record.launch_id:
            return held
        inherited = isinstance(world.lock, Known) and world.lock.value.ours
        return tuple(dict.fromkeys((*held, *(live.record.launch.locks if inherited else ()))))

    def _in_wall_time(self, numbers: Rates) -> Rates:
        if numbers.at is None:
            return numbers
        prefilling = numbers.prefilling
        if prefilling is not None:
            prefilling = replace(prefilling, since=self._clock.to_wall(prefilling.since))
        return replace(numbers, at=self._clock.to_wall(numbers.at), prefilling=prefilling)


def _max_running(argv: tuple[str, ...]) -> int | None:
    """What the command line sets, the last time it does."""
    flag = "--max-num-seqs"
    pairs = pairwise((*argv, ""))
    said = [value if word == flag else word.removeprefix(f"{flag}=") for word, value in pairs if word.startswith(flag)]
    return int(said[-1]) if said and said[-1].isdecimal() else None


def notes(world: World | None) -> tuple[str, ...]:
    """What the last look could not tell, for want of rights, and never will."""
    return () if world is None else remarks(world.card)


def _order(order: Order) -> wire.OrderInfo:
    previous = order.previous if order.returns else None
    return wire.OrderInfo(
        id=order.id,
        goal=order.goal.value,
        profile=order.profile,
        standing_in=None if order.stand_in is None else order.stand_in.profile,
        standing_in_because="" if order.stand_in is None else order.stand_in.because,
        committed=order.committed,
        previous=previous.wanted_profile if previous is not None and previous.goal is Goal.RUN else None,
    )


def _standing_in(state: State) -> str | None:
    """What was ordered is not what is to run: somebody should know, and do something about it.

    Where that has failed too the phase says so.
    """
    order = state.order
    if order.stand_in is None or state.phase in LATCHED:
        return None
    failed, instead = order.profile, order.stand_in.profile
    return f"{instead} stands in for {failed} until `arcops restart` or a reboot: {order.stand_in.because}"


def _failure(state: State) -> wire.FailureInfo | None:
    failure = state.failure
    if failure is None:
        return None
    return wire.FailureInfo(
        cause=failure.cause.value,
        summary=failure.summary,
        hint=failure.hint,
        evidence=failure.evidence,
        fits_context=failure.fits_context,
    )


def _outcome(outcome: Outcome) -> wire.OutcomeInfo:
    return wire.OutcomeInfo(
        order_id=outcome.order_id,
        exit_code=int(outcome.exit_code),
        summary=outcome.summary,
        hint=outcome.hint,
        evidence=outcome.evidence,
        superseded=outcome.superseded,
        returned_to=outcome.returned_to,
        cause=None if outcome.cause is None else outcome.cause.value,
    )
