"""Folds what the clients see into spans and histograms, so that a day needs no more memory than a minute."""

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from arcops.core.evidence.soak import Span, Trouble, bin_of

SPANS: Final = 48
"""Stretches of a soak."""
KEPT: Final = 50
"""Of the first requests that went wrong, and of the slowest."""
KINDS_OF_PROBLEMS: Final = 40
"""Told apart; any more are `other`."""
_TALE: Final = 60
"""Characters of a problem's name."""


@dataclass(frozen=True, slots=True)
class Done:
    """One request, as its client saw it. Times in seconds; `sent` since the run began."""

    kind: str
    client: int
    sent: float
    seconds: float
    """Until its end, whatever it was."""
    ttft: float | None = None
    between: float | None = None
    """Mean inter-token latency; None where fewer than two chunks came."""
    problem: str = ""
    """`WHAT: details`; empty where all went well."""


@dataclass(slots=True)
class _Growing:
    asked: int = 0
    failed: int = 0
    ttft: Counter[int] = field(default_factory=Counter[int])
    between: Counter[int] = field(default_factory=Counter[int])


class Fold:
    """Takes requests in any order."""

    def __init__(self, wanted: float) -> None:
        """`wanted`: seconds that the soak is to last."""
        self._width = max(wanted, 1e-3) / SPANS
        self._spans: dict[tuple[int, str], _Growing] = {}
        self._problems: Counter[str] = Counter()
        self._troubles: list[Trouble] = []
        self._slowest: list[tuple[float, int, Trouble]] = []
        self._count = 0
        self._failed = 0

    def take(self, done: Done) -> None:
        """Add one request."""
        self._count += 1
        at = min(int(done.sent / self._width), 2 * SPANS)
        span = self._spans.setdefault((at, done.kind), _Growing())
        span.asked += 1
        if done.problem:
            self._wrong(done, span)
            return
        if done.ttft is not None:
            span.ttft[bin_of(done.ttft)] += 1
            slow = Trouble(done.sent, done.client, done.kind, "", done.ttft)
            # The number breaks ties: troubles themselves have no order.
            push = heapq.heappush if len(self._slowest) < KEPT else heapq.heappushpop
            push(self._slowest, (done.ttft, self._count, slow))
        if done.between is not None:
            span.between[bin_of(done.between)] += 1

    def _wrong(self, done: Done, span: _Growing) -> None:
        span.failed += 1
        self._failed += 1
        name = f"{done.kind}: {done.problem.partition(':')[0][:_TALE]}"
        known = name in self._problems or len(self._problems) < KINDS_OF_PROBLEMS
        self._problems[name if known else "other"] += 1
        if len(self._troubles) < KEPT:
            self._troubles.append(Trouble(done.sent, done.client, done.kind, done.problem, done.seconds))

    @property
    def asked(self) -> int:
        """Requests so far."""
        return self._count

    @property
    def failed(self) -> int:
        """Those of them that went wrong."""
        return self._failed

    def spans(self) -> tuple[Span, ...]:
        """In the order of time."""
        return tuple(
            Span(
                kind=kind,
                begins=at * self._width,
                seconds=self._width,
                asked=one.asked,
                failed=one.failed,
                ttft=tuple(sorted(one.ttft.items())),
                between=tuple(sorted(one.between.items())),
            )
            for (at, kind), one in sorted(self._spans.items())
        )

    def problems(self) -> Mapping[str, int]:
        """By name."""
        return dict(sorted(self._problems.items()))

    def troubles(self) -> tuple[Trouble, ...]:
        """The first ones."""
        return tuple(self._troubles)

    def slowest(self) -> tuple[Trouble, ...]:
        """By their time to the first token, the slowest first."""
        return tuple(one for _, _, one in sorted(self._slowest, reverse=True))
