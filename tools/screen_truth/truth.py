"""What was true of a stretch of time, from the timings of the requests that were sent. Pure.

Everything counts when it shows at the client: a token when its chunk comes, a prompt when its first token does, a
request when its last one does. vLLM counts at the same moments, some milliseconds earlier.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from arcops.core.rates import Quantile, Quantiles, Rates
from tools.screen_truth.load import Timing

QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
BESIDE = 0.1
"""Share of the values."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Over the stretch from `since` to `until`, in seconds since the epoch."""

    since: float
    until: float
    prefill: float
    """Prompt tokens per second."""
    decode: float
    """Generated tokens per second."""
    requests: float
    """Finished requests per second."""
    tokens_per_step: float | None
    """Tokens of each chunk but a request's first and last one: the last is cut off at the answer's length."""
    ttft: tuple[float, ...]
    inter_token: tuple[float, ...]
    e2e: tuple[float, ...]
    """Seconds each, ascending."""


def truth(timings: Iterable[Timing], since: float, until: float) -> Truth:
    """What happened after `since`, and not after `until`."""
    seconds = until - since
    prompts = tokens = finished = 0
    steps: list[int] = []
    ttft: list[float] = []
    gaps: list[float] = []
    e2e: list[float] = []
    for timing in timings:
        before, told = None, 0
        for index, (at, total) in enumerate(timing.chunks):
            new, told = total - told, total
            gap, before = None if before is None else at - before, at
            if not since < at <= until:
                continue
            tokens += new
            if gap is None:
                prompts += timing.prompt
                ttft.append(at - timing.sent)
            else:
                gaps.append(gap)
                if index < len(timing.chunks) - 1:
                    steps.append(new)
        if timing.done and since < timing.done <= until:
            finished += 1
            e2e.append(timing.done - timing.sent)
    return Truth(
        since,
        until,
        prefill=prompts / seconds,
        decode=tokens / seconds,
        requests=finished / seconds,
        tokens_per_step=sum(steps) / len(steps) if steps else None,
        ttft=tuple(sorted(ttft)),
        inter_token=tuple(sorted(gaps)),
        e2e=tuple(sorted(e2e)),
    )


def quantile(ascending: Sequence[float], q: float) -> float | None:
    """The smallest of the values that at least `q` of them do not exceed."""
    return ascending[max(0, ceil(q * len(ascending)) - 1)] if ascending else None


def agrees(ascending: Sequence[float], q: float, bounds: Quantile, later: float) -> bool:
    """Whether these bounds of the `q` quantile agree with what a client saw, up to `later` seconds after the server.

    BESIDE lets a few values be later still: a client that stood still saw some of them so.
    """
    least, most = quantile(ascending, q - BESIDE), quantile(ascending, min(1.0, q + BESIDE))
    if least is None or most is None:
        return False
    return bounds.low <= most and (bounds.high is None or least <= bounds.high + later)


@dataclass(frozen=True, slots=True)
class Compared:
    """One number beside the truth."""

    what: str
    true: float
    shown: float | Quantile
    off: float
    """Of a rate: its error, as a share of the truth. Of a quantile: seconds by which the truth lies outside the bounds;
    negative below them."""


def rates_beside(true: Truth, shown: Rates) -> list[Compared]:
    """Rates, and the error of each."""
    per_step = None if shown.speculation is None else shown.speculation.tokens_per_step
    pairs = (
        ("prefill", true.prefill, shown.prefill),
        ("decode", true.decode, shown.decode),
        ("requests", true.requests, shown.requests),
        ("tokens per step", true.tokens_per_step, per_step),
    )
    return [
        Compared(what, truly, told, told / truly - 1.0)
        for what, truly, told in pairs
        if truly is not None and told is not None
    ]


def quantiles_beside(true: Truth, shown: Rates) -> list[Compared]:
    """Quantiles, and how far outside of its bounds the truth lies."""
    found: list[Compared] = []
    table = (("TTFT", true.ttft, shown.ttft), ("inter-token", true.inter_token, shown.inter_token))
    for what, values, told in (*table, ("e2e", true.e2e, shown.e2e)):
        if told is None:
            continue
        for name, q in QUANTILES:
            truly = quantile(values, q)
            if truly is not None:
                bounds = _named(told, name)
                found.append(Compared(f"{what} {name}", truly, bounds, _outside(truly, bounds)))
    return found


def _named(told: Quantiles, name: str) -> Quantile:
    return {"p50": told.p50, "p90": told.p90, "p99": told.p99}[name]


def _outside(value: float, bounds: Quantile) -> float:
    if value <= bounds.low:
        return value - bounds.low
    if bounds.high is not None and value > bounds.high:
        return value - bounds.high
    return 0.0
