"""What a soak shows: drift is told from noise, and whatever went wrong is named."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.evidence.qualification import Gate, Verdict
from arcops.core.evidence.run import Canary, ClientLoad, Counters
from arcops.core.evidence.setting import Befallen, Configuration, ServerFacts, Setting
from arcops.core.evidence.soak import MemoryLook, Settled, Soak, Span, Stray, bin_of, middle_of
from arcops.core.evidence.soaked import chance, gates, median_of

MIB = 2**20


def span(at: int, ttft: float, *, failed: int = 0) -> Span:
    return Span("short", at * 10.0, 10.0, 5, failed, ((bin_of(ttft), 5),), ((bin_of(ttft / 10), 5),))


def canary(when: str, answer: str | None) -> Canary:
    return Canary(when, "1 2 3", answer, str(answer))


CLEAN = Soak(
    options={},
    clients=4,
    began=0.0,
    wanted=300.0,
    lasted=300.0,
    interrupted=False,
    spans=tuple(span(at, 0.1) for at in range(30)),
    problems={},
    troubles=(),
    slowest=(),
    before=Counters(0.0, server_started=1.0),
    after=Counters(300.0, server_started=1.0),
    restarts=(),
    looks=30,
    strays=(),
    settled=Settled(0.1, 0.0, 0.0, 0.0),
    client=ClientLoad(300.0, 1.0, 0.0, 0.0, 0.0),
    memory=tuple(MemoryLook(at * 10.0, 1000 * MIB) for at in range(30)),
    canaries=(canary("before", "a"), canary("after", "a")),
)
WATCHED = Setting(ServerFacts("http://x:1"), Configuration("unknown"), watched_by="client")


def verdicts(soak: Soak, setting: Setting | None = WATCHED) -> dict[str, Verdict]:
    return {gate.name: gate.verdict for gate in gates(soak, setting)}


def failing(soak: Soak, setting: Setting | None = WATCHED) -> list[Gate]:
    return [gate for gate in gates(soak, setting) if gate.verdict is Verdict.FAILED]


def test_a_clean_soak_passes_every_gate() -> None:
    assert set(verdicts(CLEAN).values()) == {Verdict.PASSED}


@pytest.mark.parametrize(
    ("soak", "gate"),
    [
        (replace(CLEAN, spans=(span(0, 0.1, failed=2), *CLEAN.spans[1:]), problems={"short: HTTP 500": 2}), "errors"),
        (replace(CLEAN, restarts=(12.0,)), "restarts"),
        (replace(CLEAN, strays=(Stray(20.0, 15.0, 1),)), "slots"),
        (replace(CLEAN, settled=Settled(30.0, 1.0, 0.0, 0.0)), "slots"),
        (replace(CLEAN, settled=Settled(30.0, 0.0, 0.0, 0.3)), "kv-cache"),
        (replace(CLEAN, canaries=(canary("before", "a"), canary("after", "b"))), "canaries"),
        (replace(CLEAN, memory=tuple(MemoryLook(at * 10.0, (1000 + 20 * at) * MIB) for at in range(30))), "memory"),
    ],
)
def test_what_went_wrong_is_named_and_nothing_else(soak: Soak, gate: str) -> None:
    assert [one.name for one in failing(soak)] == [gate]


def test_work_that_was_left_out_is_said_and_neither_passed_nor_failed() -> None:
    found = gates(replace(CLEAN, left_out={"tools": "HTTP 400: no parser"}), WATCHED)
    assert [(gate.name, gate.detail) for gate in found if gate.verdict is Verdict.SKIPPED] == [
        ("tools", "left out: HTTP 400: no parser")
    ]
    assert {gate.verdict for gate in found} == {Verdict.PASSED, Verdict.SKIPPED}


def test_a_reset_fails_it() -> None:
    befallen = Befallen(10.0, "reset", "engine reset", spoils=True)
    assert [one.name for one in failing(CLEAN, replace(WATCHED, befallen=(befallen,)))] == ["undisturbed"]


def test_latencies_that_grow_are_a_drift_and_those_that_jump_about_are_none() -> None:
    growing = replace(CLEAN, spans=tuple(span(at, 0.1 * (1 + at / 30)) for at in range(30)))
    assert [one.name for one in failing(growing)] == ["ttft", "inter-token"]
    noisy = replace(CLEAN, spans=tuple(span(at, 0.1 * (1 + at * 7 % 5)) for at in range(30)))
    assert not failing(noisy)
    falling = replace(CLEAN, spans=tuple(span(at, 0.1 * (2 - at / 30)) for at in range(30)))
    assert not failing(falling)


def test_a_drift_too_small_to_matter_passes_however_sure_it_is() -> None:
    slight = replace(CLEAN, spans=tuple(span(at, 0.1 * (1 + 0.15 * at / 30)) for at in range(30)))
    assert not failing(slight)


def test_unknown_is_never_passed() -> None:
    nothing = replace(
        CLEAN,
        spans=(),
        memory=(),
        canaries=(),
        before=Counters(0.0),
        after=Counters(1.0),
        settled=Settled(30.0, None, None, None),
    )
    assert set(verdicts(nothing, None).values()) == {Verdict.UNKNOWN}


def test_the_chance_is_that_of_all_orders() -> None:
    """Against counting: of all ways to deal six values out, how many are as high as this one?"""
    first, last = (1.0, 2.0, 4.0), (3.0, 5.0, 6.0)

    def above(early: tuple[float, ...], late: tuple[float, ...]) -> int:
        return sum(two > one for one in early for two in late)

    dealt = [(deal[:3], deal[3:]) for deal in permutations((*first, *last))]
    share = sum(above(*deal) >= above(first, last) for deal in dealt) / len(dealt)
    assert chance(first, last) == pytest.approx(share)


def test_many_values_are_judged_like_few() -> None:
    """The normal distribution takes over without a jump."""
    exact = chance([float(one) for one in range(20)], [one + 6.5 for one in range(20)])
    normal = chance([float(one) for one in range(21)], [one + 6.5 for one in range(21)])
    assert normal == pytest.approx(exact, rel=0.5)


@given(st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=60))
def test_the_median_of_a_histogram_is_within_a_bin_of_the_true_one(values: list[float]) -> None:
    counts: dict[int, int] = {}
    for value in values:
        counts[bin_of(value)] = counts.get(bin_of(value), 0) + 1
    found = median_of(counts.items())
    true = sorted(values)[(len(values) - 1) // 2]
    assert found is not None
    assert true / 1.06 <= found <= true * 1.06
    assert bin_of(middle_of(bin_of(true))) == bin_of(true)


def test_the_thirds_of_a_short_soak_are_no_trend() -> None:
    short = replace(CLEAN, lasted=20.0)
    found = {gate.name: gate for gate in gates(short, WATCHED)}
    assert {found[name].verdict for name in ("ttft", "inter-token", "memory")} == {Verdict.UNKNOWN}
    assert found["ttft"].detail == "20 s are too short to tell a trend from noise"
