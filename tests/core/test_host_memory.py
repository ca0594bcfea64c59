"""Memory that no process shows: a steady growth is found, and whatever else moves on a machine is not mistaken."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.host_memory import (
    EVERY,
    LEAST,
    WINDOWS,
    Leak,
    Sample,
    judge,
    kept,
    sample_of,
    theil_sen,
    words,
    worth_telling,
)

MIB = 1024**2
GIB = 1024**3
HOUR = 3600.0
TOTAL = 64 * GIB

Course = Callable[[float], float]
"""Bytes (or requests) at a time in seconds from the first sample on."""


def nothing(at: float) -> float:
    del at
    return 0.0


def steady(per_hour: float) -> Course:
    return lambda at: per_hour * at / HOUR


def step(size: float, when: float) -> Course:
    return lambda at: size if at >= when else 0.0


def sawtooth(size: float, period: float) -> Course:
    return lambda at: size * (at % period) / period


class Host:
    """A machine whose parts take their course; what is free is what they leave, and everything trembles a little."""

    def __init__(self, seed: int = 1, noise: float = 8 * MIB) -> None:
        self.pinned: Course = nothing
        self.cache: Course = nothing
        self.anonymous: Course = nothing
        self.shared: Course = nothing
        self.slab: Course = nothing
        self.backend: Course = nothing
        self.swapped: Course = nothing
        self.load: Course | None = lambda at: 4.0
        self.random, self.noise = random.Random(seed), noise

    def sample(self, at: float) -> Sample:
        def amount(base: float, course: Course) -> int:
            return max(0, int(base + course(at) + self.random.uniform(-self.noise, self.noise)))

        pinned = amount(2 * GIB, self.pinned)
        shared = amount(200 * MIB, self.shared)
        cache = amount(8 * GIB, self.cache)
        backend = max(0, int(6 * GIB + self.backend(at)))
        anonymous = amount(3 * GIB, self.anonymous) + backend
        slab = amount(400 * MIB, self.slab)
        swapped = int(self.swapped(at))
        free = max(100 * MIB, TOTAL - pinned - shared - cache - anonymous - slab + swapped)
        meminfo = {
            "MemTotal": TOTAL,
            "MemFree": free,
            "MemAvailable": free + int(cache * 0.95),
            "Cached": cache + shared,
            "AnonPages": max(0, anonymous - swapped),
            "SUnreclaim": slab,
            "KReclaimable": 300 * MIB,
            "SwapFree": 8 * GIB - swapped,
        }
        found = sample_of(at, meminfo, 0, backend, None if self.load is None else self.load(at))
        assert found is not None
        return found

    def samples(self, hours: float) -> tuple[Sample, ...]:
        collected: tuple[Sample, ...] = ()
        for number in range(int(hours * HOUR / EVERY) + 1):
            collected = kept(collected, self.sample(number * EVERY))
        return collected

    def judged(self, hours: float) -> Leak | None:
        return judge(self.samples(hours))


def test_a_steady_growth_of_pinned_memory_is_found_within_minutes_of_its_half_hour() -> None:
    host = Host()
    host.pinned = steady(2 * GIB)
    leak = host.judged(0.55)
    assert leak is not None
    assert leak.per_hour == pytest.approx(2 * GIB, rel=0.1)
    assert leak.grown == pytest.approx(0.55 * 2 * GIB, rel=0.25)
    assert leak.exhausted_in == pytest.approx(leak.available / (2 * GIB) * HOUR, rel=0.1)
    assert abs(leak.backend or 0) < MIB


def test_nothing_is_said_before_half_an_hour_has_been_seen() -> None:
    host = Host()
    host.pinned = steady(20 * GIB)
    assert host.judged(0.45) is None
    assert host.judged(0.55) is not None
    assert judge(()) is None


def test_a_slow_growth_is_found_in_a_longer_window() -> None:
    host = Host()
    host.pinned = steady(400 * MIB)
    assert host.judged(1.0) is None
    leak = host.judged(2.2)
    assert leak is not None
    assert leak.per_hour == pytest.approx(400 * MIB, rel=0.2)
    assert leak.exhausted_in > 72 * HOUR


def test_a_growth_in_stairs_is_found_too() -> None:
    """A buffer that is lost with each long request: by the hundred MiB, and not by the page."""
    host = Host()
    host.pinned = lambda at: 100 * MIB * (at // 150)
    assert host.judged(0.6) is not None


def test_it_is_found_where_the_kernel_makes_room_by_swapping_others_out() -> None:
    """MemAvailable holds out for a while then: what shrinks is what is left of the swap."""
    host = Host()
    host.pinned = steady(4 * GIB)
    host.swapped = steady(3.5 * GIB)
    assert host.judged(1.0) is not None


def test_it_is_found_where_the_load_is_unknown_or_swings() -> None:
    host = Host()
    host.pinned = steady(2 * GIB)
    host.load = None
    assert host.judged(0.6) is not None
    host.load = lambda at: 4.0 + 3.0 * ((at // 300) % 2)
    assert host.judged(0.6) is not None


def given_back_at_once(at: float) -> float:
    """Of every minute ten seconds see a peak, and each is higher than the one before."""
    return 2 * GIB * at / HOUR if at % 60 < EVERY else 0.0


def half_returned(at: float) -> float:
    return step(2 * GIB, 1.95 * HOUR)(at) + step(2 * GIB, 2.1 * HOUR)(at)


MISTAKEN: dict[str, tuple[str, Course]] = {
    "nothing happens": ("pinned", nothing),
    "the page cache grows": ("cache", steady(20 * GIB)),
    "another program allocates steadily": ("anonymous", steady(10 * GIB)),
    "files are written to /dev/shm": ("shared", steady(10 * GIB)),
    "the backend's own memory grows": ("backend", steady(4 * GIB)),
    "the kernel's slabs grow": ("slab", steady(4 * GIB)),
    "a load pins more, once": ("pinned", step(3 * GIB, 1200.0)),
    "a load pins more, in the very middle": ("pinned", step(3 * GIB, 2.2 * HOUR - 900.0)),
    "a load pins more, twice": ("pinned", half_returned),
    "a load pins more, beside a creep that is not worth a word": (
        "pinned",
        lambda at: steady(0.2 * GIB)(at) + step(GIB, 1.2 * HOUR)(at),
    ),
    "memory is pinned and given back, fast": ("pinned", sawtooth(4 * GIB, 90.0)),
    "memory is pinned and given back, slowly": ("pinned", sawtooth(4 * GIB, 1100.0)),
    "higher peaks from minute to minute": ("pinned", given_back_at_once),
    "what was pinned is being given back": ("pinned", steady(-0.5 * GIB)),
    "a peak of a minute": ("pinned", lambda at: 8 * GIB if 2 * HOUR < at < 2 * HOUR + 60 else 0.0),
}


@pytest.mark.parametrize("what", MISTAKEN)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_else_moves_on_a_machine_is_not_mistaken(what: str, seed: int) -> None:
    host = Host(seed)
    part, course = MISTAKEN[what]
    setattr(host, part, course)
    samples = host.samples(2.2)
    for end in range(len(samples), len(samples) - 120, -12):
        assert judge(samples[:end]) is None


@pytest.mark.parametrize("ago", [130.0, 250.0, 1200.0])
def test_what_has_been_given_back_is_no_leak_any_more(ago: float) -> None:
    host = Host()
    host.pinned = sawtooth(8 * GIB, 2.5 * HOUR - ago)
    samples = host.samples(2.5)
    assert judge([one for one in samples if one.at < 2.5 * HOUR - ago]) is not None
    assert judge(samples) is None


def test_a_growth_along_with_a_load_that_rises_all_the_while_waits_until_it_is_constant() -> None:
    host = Host()
    host.pinned = steady(2 * GIB)
    host.load = lambda at: 2.0 + at / 150
    assert host.judged(0.6) is None
    host.load = lambda at: 2.0 + min(at, 1800.0) / 150
    assert host.judged(1.2) is not None


def test_memory_that_was_only_counted_elsewhere_is_not_gone() -> None:
    """A kernel with a name for it that nobody here knows: what can be had does not fall."""
    samples = Host().samples(0.6)
    grown = [replace(one, unnamed=one.unnamed + int(one.at * MIB)) for one in samples]
    assert judge(grown) is None


def test_time_that_nobody_sampled_is_judged_by_nobody() -> None:
    host = Host()
    host.pinned = steady(4 * GIB)
    samples = host.samples(0.6)
    assert judge(samples) is not None
    assert judge([one for one in samples if not 900 < one.at < 1100]) is None


def test_a_warning_does_not_come_and_go_with_the_threshold() -> None:
    host = Host()
    host.pinned = steady(1.05 * GIB)
    samples = host.samples(0.6)
    assert judge(samples) is None
    assert judge(samples, held=True) is not None


def test_it_is_told_once_and_again_when_it_has_doubled() -> None:
    leak = Leak(GIB, GIB, HOUR, 10 * GIB, 10 * HOUR, None)
    assert worth_telling(leak, None)
    assert not worth_telling(leak, GIB - 1)
    assert not worth_telling(leak, GIB // 2 + 1)
    assert worth_telling(leak, GIB // 2)


def test_the_words_name_the_pace_the_time_left_and_what_helps() -> None:
    leak = Leak(1.5 * GIB, 3 * GIB, 2 * HOUR, 12 * GIB, 8 * HOUR, 12 * MIB)
    said = words(leak)
    assert "grows by 1,536 MiB an hour (3,072 MiB in 2.0 h, while the backend's own processes show +12 MiB)" in said
    assert "the 12,288 MiB that are available last 8 h; a planned restart gives it back: `arcops restart`" in said
    assert "own processes" not in words(replace(leak, backend=None))
    assert "last 100 min" in words(replace(leak, exhausted_in=6000.0))
    assert "last 5 days" in words(replace(leak, exhausted_in=5 * 86400.0))


def test_half_a_day_of_samples_is_kept_in_a_thousand_and_a_clock_that_goes_back_begins_anew() -> None:
    samples = Host().samples(13.0)
    assert len(samples) < 1000
    assert samples[-1].at - samples[0].at == pytest.approx(WINDOWS[-1], abs=2 * EVERY)
    recent = [one.at for one in samples if one.at > samples[-1].at - WINDOWS[0]]
    assert len(recent) == WINDOWS[0] / EVERY
    back = kept(samples, replace(samples[-1], at=5.0))
    assert [one.at for one in back] == [5.0]


def test_a_day_long_growth_of_a_little_is_found_over_half_a_day() -> None:
    host = Host()
    host.pinned = steady(80 * MIB)
    leak = host.judged(12.5)
    assert leak is not None
    assert leak.per_hour == pytest.approx(80 * MIB, rel=0.2)


def test_a_machine_that_does_not_say_enough_gives_no_sample() -> None:
    whole = {"MemTotal": 8 * GIB, "MemFree": GIB, "MemAvailable": 2 * GIB}
    assert sample_of(1.0, whole, 0, None, None) == Sample(1.0, 8 * GIB, 2 * GIB, 0, 7 * GIB, None, None)
    for name in whole:
        assert sample_of(1.0, {key: value for key, value in whole.items() if key != name}, 0, None, None) is None
    named = {**whole, "SReclaimable": GIB}
    old, new = sample_of(1.0, named, 0, None, None), sample_of(1.0, {**named, "KReclaimable": 2 * GIB}, 0, None, None)
    assert old is not None
    assert new is not None
    assert (old.unnamed, new.unnamed) == (6 * GIB, 5 * GIB)


def test_more_named_than_there_is_reads_as_nothing_unnamed() -> None:
    found = sample_of(1.0, {"MemTotal": GIB, "MemFree": GIB, "MemAvailable": GIB, "Cached": GIB}, 5 * GIB, None, None)
    assert found is not None
    assert found.unnamed == 0


values = st.integers(0, 2**60)
rows = st.tuples(values, values, values, values, st.none() | values, st.none() | st.floats(0, 1e6))


@given(row=st.lists(rows, min_size=40, max_size=60), spacing=st.floats(0.1, 2000.0))
def test_whatever_is_read_nothing_breaks_and_a_leak_is_a_growth_with_an_end(
    row: list[tuple[int, int, int, int, int | None, float | None]], spacing: float
) -> None:
    samples: tuple[Sample, ...] = ()
    for number, one in enumerate(row):
        samples = kept(samples, Sample((number + 1) * spacing, *one))
    leak = judge(samples)
    if leak is not None:
        assert leak.per_hour * WINDOWS[-1] / HOUR >= LEAST * 0.99
        assert leak.exhausted_in >= 0
        assert leak.grown >= 0
        assert words(leak).isprintable()


@given(
    leak=st.floats(1.0, 30.0),
    seed=st.integers(0, 99),
    cache=st.floats(-4.0, 20.0),
    other=st.floats(0.0, 8.0),
    noise=st.floats(0.0, 24.0),
)
def test_a_leak_of_a_gibibyte_in_half_an_hour_is_found_whatever_else_goes_on(
    leak: float, seed: int, cache: float, other: float, noise: float
) -> None:
    host = Host(seed, noise * MIB)
    host.pinned, host.cache, host.anonymous = steady(2 * leak * GIB), steady(cache * GIB), steady(other * GIB)
    found = host.judged(0.52)
    assert found is not None
    assert found.per_hour == pytest.approx(2 * leak * GIB, rel=0.1)


def test_the_slope_is_the_median_of_all_and_a_few_lies_do_not_matter() -> None:
    line = [3.0 * number for number in range(36)]
    assert theil_sen(line) == 3.0
    line[5] = line[20] = line[30] = 1e12
    assert theil_sen(line) == pytest.approx(3.0)
    assert (theil_sen([]), theil_sen([5.0])) == (0.0, 0.0)
