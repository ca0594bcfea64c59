"""What a soak shows: is it clean, and if not, what went wrong? Pure, and recomputed whenever a record is read."""

from collections.abc import Callable, Iterable, Sequence
from math import comb, erfc, sqrt
from typing import Final

from arcops.core.evidence.qualification import Gate, Verdict
from arcops.core.evidence.setting import Setting
from arcops.core.evidence.soak import Soak, Span, middle_of
from arcops.core.evidence.statistics import median

DRIFT: Final = 1.2
"""The last third's median over the first's: less is of no matter, however surely it is seen."""
SURE: Final = 0.01
"""The chance, of no drift at all, that the two thirds would lie so far apart."""
FEWEST: Final = 5
"""Values in each third: of fewer nothing can be said at that level (5 against 5: at best 1 in 252)."""
LEAK: Final = 64 * 2**20
"""Bytes: growth below it is what allocators and caches do."""
BUSY_KV: Final = 0.005
"""Share of the KV cache that is still in use when nothing runs."""
TREND_AFTER: Final = 120.0
"""Seconds; the thirds of a shorter soak differ as one moment of a busy machine does from the next, and are no trend."""
LONG_ENOUGH: Final = 600.0
"""Seconds; from less no growth an hour is reckoned: a warm-up would count sixty times."""
MOST_SHOWN: Final = 8
_EXACT: Final = 20
"""Up to so many values in each third the chance is counted out, beyond it the normal distribution is near enough."""


def gates(soak: Soak, setting: Setting | None, *, trend_after: float = TREND_AFTER) -> tuple[Gate, ...]:
    """Each thing that may go wrong, with what was seen of it; no trend is seen in less than `trend_after` seconds."""
    short = soak.lasted < trend_after
    return (
        _errors(soak),
        *(Gate(kind, Verdict.SKIPPED, f"left out: {why}") for kind, why in sorted(soak.left_out.items())),
        _too_short("ttft", soak) if short else _latency(soak, "ttft", "TTFT", lambda span: span.ttft),
        _too_short("inter-token", soak)
        if short
        else _latency(soak, "inter-token", "inter-token latency", lambda span: span.between),
        _too_short("memory", soak) if short else _memory(soak, setting),
        _restarts(soak),
        _slots(soak),
        _kv(soak),
        _canaries(soak),
        _undisturbed(setting),
    )


def asked(soak: Soak) -> int:
    """Requests that were sent."""
    return sum(span.asked for span in soak.spans)


def failed(soak: Soak) -> int:
    """Requests that went wrong."""
    return sum(span.failed for span in soak.spans)


def median_of(histogram: Iterable[tuple[int, int]]) -> float | None:
    """Seconds, to the fineness of the bins; None of nothing."""
    counts = sorted(histogram)
    half = sum(count for _, count in counts) / 2
    for number, count in counts:
        half -= count
        if half <= 0:
            return middle_of(number)
    return None


def chance(first: Sequence[float], last: Sequence[float]) -> float:
    """Of values as high as `last`'s above `first`'s, if both came from the same: one-sided Mann-Whitney U test.

    Mann and Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than the Other", 1947.
    Ties count half.
    """
    n, m = len(first), len(last)
    if not n or not m:
        return 1.0
    above = sum((late > early) + 0.5 * (late == early) for early in first for late in last)
    if max(n, m) <= _EXACT:
        # The count of orders with at least this U is that of those with at most n*m - U.
        ways = _ways(n, m)
        return sum(ways[: int(n * m - above) + 1]) / comb(n + m, n)
    away = (above - n * m / 2 - 0.5) / sqrt(n * m * (n + m + 1) / 12)
    return erfc(away / sqrt(2)) / 2


def _ways(n: int, m: int) -> list[int]:
    """In how many orders of n and m values U is 0, 1, ...: the coefficients of a Gaussian binomial."""
    size = n * m + 1
    ways = [1] + [0] * (size - 1)
    for step in range(1, n + 1):
        for at in range(size - 1, m + step - 1, -1):
            ways[at] -= ways[at - m - step]
        for at in range(step, size):
            ways[at] += ways[at - step]
    return ways


def _errors(soak: Soak) -> Gate:
    total, wrong = asked(soak), failed(soak)
    if not total:
        return Gate("errors", Verdict.UNKNOWN, "no request was sent")
    if not wrong:
        return Gate("errors", Verdict.PASSED, f"none in {total} requests")
    most = sorted(soak.problems.items(), key=lambda one: (-one[1], one[0]))
    words = tuple(f"{count} x {what}" for what, count in most[:MOST_SHOWN])
    return Gate("errors", Verdict.FAILED, f"{wrong} of {total} requests went wrong", words)


def _too_short(name: str, soak: Soak) -> Gate:
    return Gate(name, Verdict.UNKNOWN, f"{soak.lasted:,.0f} s are too short to tell a trend from noise")


def _latency(soak: Soak, name: str, words: str, of: Callable[[Span], tuple[tuple[int, int], ...]]) -> Gate:
    """By kind of work: the medians of the first third's spans beside the last third's."""
    told: list[str] = []
    drifted = False
    for kind in dict.fromkeys(span.kind for span in soak.spans):
        found = [(span.begins, middle) for span in soak.spans if span.kind == kind and (middle := median_of(of(span)))]
        first = [value for at, value in found if at < soak.lasted / 3]
        last = [value for at, value in found if at >= soak.lasted * 2 / 3]
        early, late = median(first), median(last)
        if early is None or late is None or min(len(first), len(last)) < FEWEST:
            continue
        unlikely = chance(first, last)
        if unlikely <= SURE and late > DRIFT * early:
            drifted = True
        told.append(f"{kind} {early * 1000:,.1f} to {late * 1000:,.1f} ms")
    if not told:
        return Gate(name, Verdict.UNKNOWN, f"too little was measured to tell a drift of the {words} from noise")
    verdict = Verdict.FAILED if drifted else Verdict.PASSED
    return Gate(name, verdict, f"{words}, first to last third: {', '.join(told)}")


def _memory(soak: Soak, setting: Setting | None) -> Gate:
    """Of each card, and of the server's processes. The first third is its warming up, and is left out."""
    series: dict[str, list[tuple[float, float]]] = {}
    for sample in () if setting is None else setting.samples:
        if sample.memory_used is not None:
            series.setdefault(f"card {sample.address}", []).append((sample.at - soak.began, sample.memory_used))
    if soak.memory:
        series["the server's processes"] = [(look.at - soak.began, look.resident) for look in soak.memory]
    told: list[str] = []
    leaks = False
    for name, values in series.items():
        second = [value for at, value in values if soak.lasted / 3 <= at < soak.lasted * 2 / 3]
        third = [value for at, value in values if soak.lasted * 2 / 3 <= at <= soak.lasted]
        before, after = median(second), median(third)
        if before is None or after is None or min(len(second), len(third)) < FEWEST:
            continue
        grown = after - before
        leaks = leaks or (grown > LEAK and chance(second, third) <= SURE)
        hourly = f", {grown / (soak.lasted / 3) * 3600 / 2**20:+,.0f} MiB an hour" if soak.lasted >= LONG_ENOUGH else ""
        told.append(f"{name} {grown / 2**20:+,.0f} MiB{hourly}")
    if not told:
        return Gate("memory", Verdict.UNKNOWN, "memory was not seen, or not for long enough")
    verdict = Verdict.FAILED if leaks else Verdict.PASSED
    return Gate("memory", verdict, f"second to last third: {', '.join(told)}")


def _restarts(soak: Soak) -> Gate:
    if soak.restarts:
        times = tuple(f"at {at:,.0f} s" for at in soak.restarts[:MOST_SHOWN])
        return Gate("restarts", Verdict.FAILED, f"the server was started anew {len(soak.restarts)} times", times)
    if soak.before.server_started is None or soak.after.server_started is None:
        return Gate("restarts", Verdict.UNKNOWN, "the server does not say when it was started")
    return Gate("restarts", Verdict.PASSED, f"the same server in all {soak.looks} looks")


def _slots(soak: Soak) -> Gate:
    end = soak.settled
    if end.running is None:
        return Gate("slots", Verdict.UNKNOWN, "the server does not say how many requests it runs")
    left = end.running + (end.waiting or 0.0)
    if left:
        words = f"{left:,.0f} requests are still there {end.seconds:,.0f} s after the last client has gone"
        return Gate("slots", Verdict.FAILED, words)
    if soak.strays:
        longest = max(soak.strays, key=lambda stray: stray.seconds)
        words = f"for {longest.seconds:,.0f} s the server had {longest.most} requests more than the clients had open"
        times = tuple(f"at {stray.at:,.0f} s: {stray.most} for {stray.seconds:,.0f} s" for stray in soak.strays)
        return Gate("slots", Verdict.FAILED, words, times[:MOST_SHOWN])
    return Gate("slots", Verdict.PASSED, "every request ended with its client")


def _kv(soak: Soak) -> Gate:
    usage = soak.settled.kv_usage
    if usage is None:
        return Gate("kv-cache", Verdict.UNKNOWN, "the server does not say how much of its KV cache is in use")
    if usage > BUSY_KV:
        words = f"{usage:.1%} in use {soak.settled.seconds:,.0f} s after the last client has gone"
        return Gate("kv-cache", Verdict.FAILED, words)
    return Gate("kv-cache", Verdict.PASSED, "back to nothing at the end")


def _canaries(soak: Soak) -> Gate:
    before = {one.question: one for one in soak.canaries if one.when == "before"}
    after = {one.question: one for one in soak.canaries if one.when == "after"}
    pairs = [(before.get(question), after.get(question)) for question in dict.fromkeys((*before, *after))]
    other = tuple(
        f"{early.question!r}: {early.text!r}, then {late.text!r}"
        for early, late in pairs
        if early and late and early.answer and late.answer and early.answer != late.answer
    )
    if other:
        return Gate(
            "canaries", Verdict.FAILED, f"{len(other)} of {len(pairs)} are answered otherwise than before", other
        )
    if not pairs or any(not (early and late and early.answer and late.answer) for early, late in pairs):
        return Gate("canaries", Verdict.UNKNOWN, "not all of them were answered before and after")
    return Gate("canaries", Verdict.PASSED, f"all {len(pairs)} are answered as before")


def _undisturbed(setting: Setting | None) -> Gate:
    if setting is None or setting.watched_by == "nobody":
        return Gate("undisturbed", Verdict.UNKNOWN, "nobody looked for resets")
    spoiled = tuple(f"{one.kind} at {one.at:,.0f} s: {one.text}" for one in setting.befallen if one.spoils)
    if spoiled:
        return Gate("undisturbed", Verdict.FAILED, f"{len(spoiled)} events befell the card", spoiled[:MOST_SHOWN])
    return Gate("undisturbed", Verdict.PASSED, "nothing befell the card")
