"""Asks the backend over HTTP, at the pace that its phase calls for, and keeps what it said."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from arcops.core import metrics, quality
from arcops.core.launch import Checks, Launch
from arcops.core.metrics import Sample
from arcops.core.quality import Quality
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.rates import Rates, Timed, rates
from arcops.core.rollup import Tally
from arcops.core.world import Answer, AnswerState, Remark, Server
from arcops.daemon.clock import Clock
from arcops.machine.vllm import VllmServer

RISING_EVERY = 0.1
"""Seconds between two looks while the backend comes up: what a switch may lose to polling."""
STEADY_EVERY = 1.0
"""Seconds between two scrapes of a backend that serves."""
FINE_SAMPLES = 330
"""Samples that are kept at the pace of the scrapes; older ones are thinned to one in ten."""
COARSE_SAMPLES = 360
POINTS = 3600
"""Seconds of history for plots."""


class Pace(Enum):
    """What is asked, and how often."""

    OFF = "off"
    RISING = "rising"
    """Does anybody answer, and who?"""
    STEADY = "steady"
    """What do the numbers say?"""


@dataclass(frozen=True, slots=True)
class Point:
    """One second of the past; `at` is monotonic."""

    at: float
    running: float | None
    waiting: float | None
    kv_usage: float | None
    prefill: float | None
    decode: float | None


Taken = Callable[[Timed, str, float | None], None]
"""Hears of a scrape, of its launch's profile, and of the tokens per second of a prefill that goes on."""


class Scraper:
    """Owns the connection to one backend at a time. What it knows are readings; it decides nothing."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._pace = Pace.OFF
        self._turn = asyncio.Event()
        self._vllm: VllmServer | None = None
        self._launch_id = ""
        self._profile = ""
        self._checks = Checks()
        self._quality = Quality()
        self._probe: asyncio.Task[None] | None = None
        self._fine: deque[Timed] = deque(maxlen=FINE_SAMPLES)
        self._coarse: deque[Timed] = deque(maxlen=COARSE_SAMPLES)
        self.points: deque[Point] = deque(maxlen=POINTS)
        self._taken: Taken = _nobody
        self.answer: Answer | None = None
        self.server: Reading[Server] = self._nothing()
        self.sample: Reading[Sample] = self._nothing()
        self.text: Reading[str] = self._nothing()
        """The last metrics page of the backend as it came, or why there is none: for the evidence."""

    async def attend(self, launch_id: str, launch: Launch, api_key: str | None) -> None:
        """Turn to another backend; what was known of the last one is forgotten, its samples excepted."""
        await self.leave()
        self._launch_id, self._profile, self._checks = launch_id, launch.profile, launch.checks
        self._vllm = VllmServer(launch.host, launch.port, api_key, now=self._clock.monotonic)

    async def leave(self) -> None:
        """Ask nobody any more."""
        if self._probe is not None:
            self._probe.cancel()
            # Waited for, not awaited: its cancellation must not pass for this task's own, nor hide it.
            await asyncio.wait({self._probe})
            self._probe = None
        vllm, self._vllm = self._vllm, None
        self.answer, self.server, self.sample, self.text = None, self._nothing(), self._nothing(), self._nothing()
        self._quality = Quality()
        if vllm is not None:
            await vllm.close()

    def set_pace(self, pace: Pace) -> None:
        """Another phase, another pace; a faster one begins at once."""
        if pace is not self._pace:
            self._pace = pace
            self._turn.set()

    def hurry(self) -> None:
        """What was scraped is too old for what is to be decided: scrape now."""
        self._turn.set()

    def ask(self, model: str, deadline: float) -> None:
        """Put one short question; the answer turns up in `answer`. One that is still open counts no more."""
        if self._vllm is None:
            return
        if self._probe is not None:
            self._probe.cancel()
        self.answer = Answer(self._launch_id, AnswerState.WAITING)
        self._probe = asyncio.create_task(self._ask(self._vllm, model, deadline))

    async def _ask(self, vllm: VllmServer, model: str, deadline: float) -> None:
        try:
            said = await vllm.first_answer(model, deadline, self._checks)
            answer = Answer(self._launch_id, said.state, said.detail)
        except Exception as error:  # noqa: BLE001 - a question that comes to nothing has to end all the same
            answer = Answer(self._launch_id, AnswerState.WRONG, _words(error))
        if self._probe is asyncio.current_task():
            self.answer = answer
            self._quality = quality.answered(self._quality, answer)
            self._wake()

    async def run(self) -> None:
        """Scrape until cancelled."""
        while True:
            self._turn.clear()
            began = self._clock.monotonic()
            vllm = self._vllm
            if vllm is not None and self._pace is not Pace.OFF:
                try:
                    await self._scrape(vllm)
                except Exception as error:  # noqa: BLE001 - whatever a server says, the supervisor goes on
                    self._fail(vllm, error)
                self._wake()
            every = RISING_EVERY if self._pace is Pace.RISING else STEADY_EVERY
            rest = max(0.0, began + every - self._clock.monotonic())
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._turn.wait()

    async def _scrape(self, vllm: VllmServer) -> None:
        match self._pace:
            case Pace.OFF:
                return
            case Pace.RISING:
                server = await self._look(vllm)
                if vllm is self._vllm:
                    self.server = server
            case Pace.STEADY:
                text = await vllm.metrics()
                if vllm is self._vllm:
                    # A page that was read stays: what the numbers were before they fell silent is worth keeping.
                    self.text = text if isinstance(text, Known) or isinstance(self.text, Unknown) else self.text
                    self._take(text)

    def _fail(self, vllm: VllmServer, error: Exception) -> None:
        """What was asked came to nothing: nobody knows, rather than an old answer for ever."""
        if vllm is self._vllm:
            nothing = Unknown(_words(error), self._clock.monotonic())
            match self._pace:
                case Pace.OFF:
                    return
                case Pace.RISING:
                    self.server = nothing
                case Pace.STEADY:
                    self.sample = nothing

    async def _look(self, vllm: VllmServer) -> Reading[Server]:
        if not await vllm.accepts():
            return Unknown("nobody accepts connections yet", self._clock.monotonic())
        return await vllm.look()

    def _take(self, text: Reading[str]) -> None:
        if isinstance(text, Unknown):
            self.sample = text
            return
        sample = metrics.parse(text.value)
        if sample.running is None and sample.generation_tokens is None:
            self.sample = Unknown("the metrics hold nothing of vLLM's", text.at)
            return
        self.sample = Known(sample, text.at)
        self._quality = quality.scraped(self._quality, sample)
        self._keep(Timed(text.at, sample, self._launch_id))

    def _keep(self, timed: Timed) -> None:
        if len(self._fine) == FINE_SAMPLES:
            oldest = self._fine[0]
            if not self._coarse or oldest.at - self._coarse[-1].at >= 10 * STEADY_EVERY:
                self._coarse.append(oldest)
        self._fine.append(timed)
        recent = rates([*self._fine][-30:], 2.5 * STEADY_EVERY)
        prefilling = None if recent.prefilling is None else recent.prefilling.rate
        prefill = recent.prefill if recent.prefilling is None else prefilling
        self.points.append(Point(timed.at, recent.running, recent.waiting, recent.kv_usage, prefill, recent.decode))
        self._taken(timed, self._profile, prefilling)

    def tell(self, taken: Taken) -> None:
        """Have `taken` hear of every scrape from now on."""
        self._taken = taken

    def resume(self, scrapes: Sequence[Timed], tallies: Sequence[Tally]) -> None:
        """What an earlier supervisor had scraped, older than anything here: so windows and plots reach back to it.

        The scrapes are of the backend that lives, whose counters go on; the tallies are of whatever there was.
        """
        first = self._fine[0].at if self._fine else self._clock.monotonic()
        newest = [timed for timed in scrapes if timed.at < first]
        recent = [timed for timed in newest if timed.at >= first - FINE_SAMPLES * STEADY_EVERY]
        for timed in newest[: len(newest) - len(recent)]:
            if not self._coarse or timed.at - self._coarse[-1].at >= 10 * STEADY_EVERY:
                self._coarse.append(timed)
        self._fine = deque([*recent, *self._fine], maxlen=FINE_SAMPLES)
        # Their wall time is the one of then; this clock's is what they would have by today's.
        offset = self._clock.wall() - self._clock.monotonic()
        earlier = [_point(tally, tally.at - offset) for tally in tallies if tally.at - offset < first]
        self.points = deque([*earlier, *self.points], maxlen=POINTS)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What is wrong with the backend, and no reason to restart it."""
        return quality.remarks(self._quality, self._checks)

    def rates(self, window: float) -> Rates:
        """Rates over the last `window` seconds."""
        samples = [*self._fine] if window <= FINE_SAMPLES else [*self._coarse, *self._fine]
        return rates(samples, window)

    def _nothing(self) -> Unknown:
        return Unknown("nothing was asked yet", self._clock.monotonic())


def _nobody(_timed: Timed, _profile: str, _prefilling: float | None) -> None:
    """Where nobody wants to hear of scrapes."""


def _point(tally: Tally, at: float) -> Point:
    """A second of an earlier supervisor's time."""
    gauges = (tally.running, tally.waiting, tally.kv_usage)
    running, waiting, kv_usage = (None if gauge is None else gauge.mean for gauge in gauges)
    counted = tally.per_second(tally.prefill_tokens)
    prefill = counted if tally.prefilling is None else tally.prefilling.mean
    return Point(at, running, waiting, kv_usage, prefill, tally.per_second(tally.generation_tokens))


def _words(error: Exception) -> str:
    return f"the backend cannot be asked: {type(error).__name__} {error}"
