"""When a failed backend is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.launch import RestartPolicy
from arcops.core.restart import CARD_FAULTS_PER_HOUR, HOUR, Latch, Retry, judge, recent
from arcops.core.world import Cause, Ending

POLICY = RestartPolicy(first_delay=2.0, factor=2.0, longest_delay=300.0, per_hour=6)
BY_CHANCE = Ending("L1", Cause.ENGINE_DIED, "the engine died", "", deterministic=False)
LOST = Ending("L1", Cause.DEVICE_LOST, "the device was lost", "", deterministic=False, card_fault=True)
FOR_GOOD = Ending("L1", Cause.UNKNOWN_FLAG, "unknown flag", "", deterministic=True)


@pytest.mark.parametrize(
    ("failures", "delay"), [(0, 2.0), (1, 2.0), (2, 4.0), (3, 8.0), (4, 16.0), (5, 32.0), (6, 64.0)]
)
def test_the_delay_doubles_with_every_failure(failures: int, delay: float) -> None:
    verdict = judge(POLICY, BY_CHANCE, (100.0,) * failures, now=100.0, dice=0.0)
    assert verdict == Retry(100.0 + delay, f"the engine died; attempt {failures + 1} in {delay:.0f} s")


def test_the_jitter_takes_up_to_a_quarter_off() -> None:
    verdict = judge(POLICY, BY_CHANCE, (0.0,) * 3, now=0.0, dice=0.999)
    assert isinstance(verdict, Retry)
    assert verdict.at == pytest.approx(6.0, abs=0.01)


def test_one_failure_too_many_within_an_hour_latches() -> None:
    verdict = judge(POLICY, BY_CHANCE, tuple(float(at) for at in range(7)), now=10.0, dice=0.0)
    assert verdict == Latch("the engine died; 7 failures within an hour, the limit is 6")


def test_a_card_that_was_reset_is_said_to_be_to_blame_and_has_a_limit_of_its_own() -> None:
    verdict = judge(POLICY, LOST, (100.0,), now=100.0, dice=0.0)
    words = "the device was lost; the card is to blame and not the profile, and is tried first; attempt 2 in 2 s"
    assert verdict == Retry(102.0, words)
    most = (100.0,) * CARD_FAULTS_PER_HOUR
    assert isinstance(judge(POLICY, LOST, most, now=100.0, dice=0.0), Retry)
    over = judge(POLICY, LOST, (*most, 100.0), now=100.0, dice=0.0)
    assert over == Latch("the device was lost; 4 backends lost to the card within an hour, the limit is 3")


def test_a_profile_that_allows_fewer_attempts_allows_no_more_after_a_reset() -> None:
    assert isinstance(judge(RestartPolicy(per_hour=0), LOST, (0.0,), 0.0, 0.0), Latch)


def test_failures_older_than_an_hour_do_not_count() -> None:
    assert recent((0.0, 1.0, HOUR), now=HOUR + 0.5) == (1.0, HOUR)
    assert isinstance(judge(POLICY, BY_CHANCE, (0.0,) * 50 + (HOUR,), now=HOUR, dice=0.0), Retry)


def test_a_deterministic_failure_latches_at_once() -> None:
    assert judge(POLICY, FOR_GOOD, (0.0,), 0.0, 0.0) == Latch("unknown flag; the same launch would fail again")


def test_a_policy_without_retries_latches_at_the_first_failure() -> None:
    assert isinstance(judge(RestartPolicy(per_hour=0), BY_CHANCE, (0.0,), 0.0, 0.0), Latch)


@given(
    count=st.integers(0, 5000),
    factor=st.floats(1.0, 1e6),
    longest=st.floats(0.0, 1e6),
    dice=st.floats(0.0, 0.999),
)
def test_the_delay_is_never_longer_than_the_longest(count: int, factor: float, longest: float, dice: float) -> None:
    policy = RestartPolicy(first_delay=1.0, factor=factor, longest_delay=longest, per_hour=10_000)
    verdict = judge(policy, BY_CHANCE, (0.0,) * count, now=0.0, dice=dice)
    assert isinstance(verdict, Retry)
    assert 0.0 <= verdict.at <= longest
