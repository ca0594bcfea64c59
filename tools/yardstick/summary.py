"""The figures that both sides give, and how they stand beside each other. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, nan
from typing import Final

from arcops.core.evidence.figures import is_complete, of_request, span
from arcops.core.evidence.run import Stage
from arcops.core.evidence.statistics import median, percentile

FIGURES: Final = (
    "request_throughput",
    "output_throughput",
    *(f"{kind}_{what}_ms" for what in ("ttft", "itl", "tpot") for kind in ("mean", "median", "p99")),
)
"""By the names that vLLM's result file has for them: requests and tokens a second, and milliseconds."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one side measured in one round."""

    figures: Mapping[str, float]
    """Of each of FIGURES."""
    seconds: float
    tokens: int
    failed: int
    cpu_seconds: float | None = None
    """Processor time of the client while it measured; None where that could not be read."""
    lag: Mapping[str, float] | None = None
    """How late the client's loop was, in milliseconds; only arcops tells."""


@dataclass(frozen=True, slots=True)
class Beside:
    """One figure of both sides over all rounds."""

    name: str
    ours: float
    """The median of the rounds, as is the next."""
    theirs: float
    ratio: float
    """Ours over theirs: the median over the pairs of rounds, each of which met the same moment of the machine."""
    spread: float
    """By how much the rounds of one side differ, (most - least) / median, the larger of the two: what a difference
    between the sides has to be seen against."""
    between: tuple[float, float] | None
    """Where the ratio lies with at least 95 %; None where the pairs are too few to say."""


def of_vllm(result: Mapping[str, object]) -> dict[str, float]:
    """As its result file prints them."""
    return {name: _number(result.get(name)) for name in FIGURES}


def of_stage(stage: Stage, seconds: float | None = None) -> dict[str, float]:
    """By arcops' own definitions. `seconds` is how long it took where that is not to be told from the requests."""
    complete = [of_request(one) for one in stage.requests if is_complete(one)]
    whole = span(stage)
    if not complete or whole is None:
        raise ValueError("no request was answered")
    taken = whole[1] - whole[0] if seconds is None else seconds
    tokens = sum(one.output_tokens or 0 for one in complete)
    times: dict[str, list[float]] = {
        "ttft": [one.ttft for one in complete if one.ttft is not None],
        "itl": [gap for one in complete for gap in one.chunk_gaps],
        "tpot": [one.time_per_token for one in complete if one.time_per_token is not None],
    }
    rates = {"request_throughput": len(complete) / taken, "output_throughput": tokens / taken}
    return rates | {
        f"{kind}_{what}_ms": 1000 * (how(values) or 0.0) for what, values in times.items() for kind, how in _HOW.items()
    }


def beside(ours: Sequence[Measured], theirs: Sequence[Measured]) -> tuple[Beside, ...]:
    """Every figure of both, in the order of FIGURES."""
    return tuple(
        _beside(name, [one.figures[name] for one in ours], [one.figures[name] for one in theirs]) for name in FIGURES
    )


def _beside(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Beside:
    pairs = [mine / other for mine, other in zip(ours, theirs, strict=True) if other]
    ratio = median(pairs)
    return Beside(
        name,
        ours=median(ours) or 0.0,
        theirs=median(theirs) or 0.0,
        ratio=nan if ratio is None else ratio,
        spread=max(_spread(ours), _spread(theirs)),
        between=interval(pairs),
    )


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Two of the values, between which the median of what they were drawn from lies with at least 95 %.

    By ranks alone (the sign test turned round), so whatever their distribution is; None of fewer than six values.
    """
    count, ordered = len(values), sorted(values)
    # How many may be cut off at each end: as long as 2 * P(so few of `count` coins fall on one side) is at most 5 %.
    cut, tail = 0, 1
    while 2 * tail <= 0.05 * 2**count:
        cut += 1
        tail += comb(count, cut)
    return (ordered[cut - 1], ordered[count - cut]) if cut else None


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _p99(values: Sequence[float]) -> float | None:
    return percentile(sorted(values), 99)


def _number(value: object) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    raise ValueError(f"{value!r} is no figure")


_HOW: Final[Mapping[str, Callable[[Sequence[float]], float | None]]] = {"mean": _mean, "median": median, "p99": _p99}
