"""One look at everything: gathers what is cheap now and what the slower observers said last."""

from collections.abc import Callable, Sequence

from arcops.core.cards.incidents import Incident
from arcops.core.decide.moves import ended
from arcops.core.metrics import Sample
from arcops.core.phase import Phase
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.state import State
from arcops.core.world import Activity, Backend, Lock, World
from arcops.daemon.act import Actor
from arcops.daemon.clock import Clock
from arcops.daemon.looks import Looks
from arcops.daemon.scraper import Pace, Scraper
from arcops.machine import lock

Befell = Callable[[Sequence[str], float], tuple[Incident, ...]]

_RISING = frozenset({Phase.STARTING, Phase.CHECKING})
_STEADY = frozenset({Phase.SERVING, Phase.SUSPECT, Phase.DRAINING})


def _nothing_befell(cards: Sequence[str], since: float) -> tuple[Incident, ...]:
    """Where nobody watches the cards."""
    del cards, since
    return ()


class Observer:
    """Renders the World. Its own faults become absences with their reason."""

    def __init__(
        self, clock: Clock, actor: Actor, scraper: Scraper, looks: Looks, befell: Befell = _nothing_befell
    ) -> None:
        """`befell` gives what befell some cards since a moment (seconds, monotonic)."""
        self._clock = clock
        self._actor = actor
        self._scraper = scraper
        self._looks = looks
        self._befell = befell

    def look(self, state: State) -> World:
        """The world as it is for `state`: its phase says which signs of life count."""
        backend = self._backend()
        self._scraper.set_pace(pace_of(state.phase))
        if state.phase is Phase.DRAINING and self._scraper.sample.at < state.since:
            self._scraper.hurry()
        live = self._actor.live
        ending = None
        incidents = () if backend is None else self._befell(backend.launch.cards, backend.spawned_at)
        if backend is not None and live is not None and ended(backend):
            ending = live.ending(state.phase, incidents)
        port, card = self._looks.seen(backend.launch if backend is not None else state.order.wanted)
        return World(
            now=self._clock.monotonic(),
            dice=self._clock.dice(),
            lock=self._lock(state, backend),
            port=port,
            card=card,
            setup=self._actor.setups.of(state.order.wanted),
            backend=backend,
            server=self._scraper.server,
            answer=self._scraper.answer,
            activity=self._activity(state),
            requests=requests_of(self._scraper.sample),
            ending=ending,
            remarks=self._scraper.remarks,
            incidents=incidents,
            examined=self._actor.trials.seen(state.order.wanted),
        )

    def _backend(self) -> Backend | None:
        live = self._actor.live
        if live is None:
            return None
        if self._actor.unproven:
            live.read_progress()
        return live.look()

    def _lock(self, state: State, backend: Backend | None) -> Reading[Lock]:
        """Ours is what this process holds, or what the backend of an earlier supervisor holds for us."""
        now = self._clock.monotonic()
        launch = backend.launch if backend is not None else state.order.wanted
        held = self._actor.locks.held
        if launch is None:
            return Known(Lock(ours=bool(held), holders=(), since=self._actor.locked_at), now)
        missing = [path for path in launch.locks if path not in held]
        if not missing:
            return Known(Lock(ours=True, holders=(), since=self._actor.locked_at), now)
        if backend is not None and self._actor.live is not None:
            return self._inherited(missing, backend, self._actor.live.seen, now)
        if self._actor.lock_fault is not None:
            return Unknown(self._actor.lock_fault, now)
        return Known(Lock(ours=False, holders=self._actor.lock_holders, since=now), now)

    def _inherited(self, missing: list[str], backend: Backend, pids: tuple[int, ...], now: float) -> Reading[Lock]:
        try:
            ours = all(lock.holds(path, pids) for path in missing)
        except OSError as error:
            return Unknown(f"the lock's holder cannot be read: {error.strerror}", now)
        return Known(Lock(ours=ours, holders=() if ours else self._actor.lock_holders, since=backend.spawned_at), now)

    def _activity(self, state: State) -> Reading[Activity]:
        """Log and processor time while it starts, counters and the KV gauge while it serves."""
        now = self._clock.monotonic()
        live = self._actor.live
        if live is None:
            return Unknown("there is no backend", now)
        if state.phase in _STEADY:
            return served_activity(self._scraper)
        return Known(Activity(live.log_bytes(), live.cpu_seconds(), counters=0.0, kv_usage=0.0), now)


def pace_of(phase: Phase) -> Pace:
    """How often the backend is asked in a phase, and for what."""
    if phase in _RISING:
        return Pace.RISING
    return Pace.STEADY if phase in _STEADY else Pace.OFF


def requests_of(sample: Reading[Sample]) -> Reading[int]:
    """Requests running and waiting, where vLLM says both."""
    if isinstance(sample, Unknown):
        return sample
    running, waiting = sample.value.running, sample.value.waiting
    if running is None or waiting is None:
        return Unknown("vLLM does not say how many requests it has", sample.at)
    return Known(int(running + waiting), sample.at)


def served_activity(scraper: Scraper) -> Reading[Activity]:
    """The signs of life of a backend that serves.

    A page without a number of vLLM's was read all the same: it answers, and says nothing of its work.
    """
    sample, text = scraper.sample, scraper.text
    if isinstance(sample, Known):
        return Known(_served(sample.value), sample.at)
    return Known(_served(Sample()), text.at) if isinstance(text, Known) and text.at >= sample.at else sample


def _served(sample: Sample) -> Activity:
    """What moves while it works. A missing series stays missing for all of a launch, so that it may stand at 0."""
    return Activity(log_bytes=0, cpu_seconds=0.0, counters=sample.progress or 0.0, kv_usage=sample.kv_usage or 0.0)
