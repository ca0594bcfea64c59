"""What clients are told of the numbers' past: pages of points, by the second or by the minute or longer.

All of it is done on a thread: the disk may hang, and an hour of seconds takes tens of milliseconds to put together.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeVar

from arcops import wire
from arcops.core.rollup import MINUTE, Gauge, Tally, quantiles, rolled_up, start_of
from arcops.daemon.aside import AT_A_CLIENTS_WORD, Aside
from arcops.daemon.clock import Clock
from arcops.daemon.history import History, tally_of, unpacked
from arcops.machine.database import StoreError
from arcops.machine.sample_store import Minute, Second

SECOND: Final = 1.0
MOST_POINTS: Final = 3_600
"""Of one answer."""
MOST_ROWS: Final = 10_000
"""Minutes that are read for one answer: a week."""
READ_WITHIN: Final = 5.0
"""Seconds that the disk has."""

T = TypeVar("T")


class Samples:
    """Answers for the history; holds nothing but its source."""

    def __init__(self, history: History, clock: Clock) -> None:
        self._history = history
        self._clock = clock
        self._aside: Aside[wire.Samples] = Aside(READ_WITHIN, AT_A_CLIENTS_WORD)

    async def page(self, since: float, until: float, step: float | None) -> wire.Samples:
        """What was seen from `since` on and before `until`, as much as fits into one answer.

        Times are in seconds since the epoch, negative ones before now. Without a step the points are seconds where
        these reach back to `since`, else minutes.
        """
        now = self._clock.wall()
        since, until = (now + at if at < 0 else at for at in (since, until))
        seconds, waiting = self._history.seconds, self._history.waiting
        if step is None:
            reaches = self._history.has_every_second or (len(seconds) > 0 and seconds[0].at <= since)
            step = SECOND if reaches else MINUTE
        if step == SECOND:
            return await self._aside.run(partial(_seconds, seconds, since, until))
        try:
            return await self._aside.run(partial(self._minutes, waiting, since, until, step))
        except (StoreError, TimeoutError) as error:
            # What is in memory can be told all the same.
            reason = error.reason if isinstance(error, StoreError) else str(error)
            return _rolled(waiting, since, until, step, absent=f"what is on the disk cannot be read: {reason}")

    def _minutes(self, waiting: Sequence[Minute], since: float, until: float, step: float) -> wire.Samples:
        written = self._history.minutes(start_of(since, step), until, MOST_ROWS + 1)
        names = {minute.name for minute in written}
        waiting = [minute for minute in waiting if minute.name not in names]
        if len(written) <= MOST_ROWS:
            return _rolled((*written, *waiting), since, until, step)
        # There is more: what is told ends where a step begins that may not be here in whole.
        end, first = start_of(written[-1].at, step), start_of(since, step)
        if end > first:
            return _rolled((*written, *waiting), since, end, step, more=end)
        # Not even the first step is here in whole. Whoever asks for the rest must not ask for the same again.
        end, absent = first + step, f"a step has more than {MOST_ROWS} rows on the disk; those beyond are left out"
        return _rolled((*written, *waiting), since, end, step, more=end, absent=absent)


def _seconds(seconds: Sequence[Second], since: float, until: float) -> wire.Samples:
    wanted = sorted((second for second in seconds if since <= second.at < until), key=lambda second: second.at)
    placed, following = _cut([(second.at, second) for second in wanted])
    tallies = ((at, tally_of(second.body)) for at, second in placed)
    points = tuple(point(at, tally) for at, tally in tallies if tally is not None)
    return wire.Samples(step=SECOND, points=points, next=following)


def _rolled(
    minutes: Sequence[Minute],
    since: float,
    until: float,
    step: float,
    *,
    more: float | None = None,
    absent: str | None = None,
) -> wire.Samples:
    begin = start_of(since, step)
    wanted = sorted((minute for minute in minutes if begin <= minute.at < until), key=lambda minute: minute.at)
    tallies = (unpacked(minute.body) for minute in wanted)
    placed, following = _cut(rolled_up((tally for tally in tallies if tally is not None), step))
    points = tuple(point(at, tally) for at, tally in placed)
    return wire.Samples(step=step, points=points, next=more if following is None else following, absent=absent)


def _cut(placed: Sequence[tuple[float, T]]) -> tuple[Sequence[tuple[float, T]], float | None]:
    """As much as fits, and where the rest begins: points of one time stay together."""
    if len(placed) <= MOST_POINTS:
        return placed, None
    following = placed[MOST_POINTS][0]
    kept = [one for one in placed[:MOST_POINTS] if one[0] < following]
    return (kept, following) if kept else (placed, None)


def point(at: float, tally: Tally) -> wire.SamplePoint:
    """A tally as it goes over the wire."""
    return wire.SamplePoint(
        at=at,
        seconds=tally.seconds,
        launch_id=tally.launch_id,
        profile=tally.profile,
        phase=tally.phase,
        running=_spread(tally.running),
        waiting=_spread(tally.waiting),
        kv_usage=_spread(tally.kv_usage),
        prefill=tally.per_second(tally.prefill_tokens),
        prefilling=_spread(tally.prefilling),
        decode=tally.per_second(tally.generation_tokens),
        requests=tally.per_second(tally.requests),
        preemptions=tally.preemptions,
        acceptance=tally.acceptance,
        tokens_per_step=tally.tokens_per_step,
        ttft=quantiles(tally.ttft),
        inter_token=quantiles(tally.inter_token),
        queue=quantiles(tally.queue),
        card_memory=_spread(tally.card_memory),
        card_power=_spread(tally.card_power),
        card_temperature=_spread(tally.card_temperature),
        card_clock=_spread(tally.card_clock),
    )


def _spread(gauge: Gauge | None) -> wire.Spread | None:
    return None if gauge is None else wire.Spread(mean=gauge.mean, low=gauge.low, high=gauge.high)
