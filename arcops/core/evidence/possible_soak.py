"""Can this soak be true? As `possible` asks of a run: held to it is what arcops itself counted and timed."""

from collections.abc import Iterator
from typing import Final

from arcops.core.evidence.soak import LEAST, Soak, Span, bin_of

_LONGEST: Final = 1e9
"""Seconds; thirty years."""
_BINS: Final = range(bin_of(LEAST), bin_of(_LONGEST) + 1)


def impossible(soak: Soak) -> str:
    """The first thing that cannot be, in words; empty where nothing speaks against it."""
    return next(_contradictions(soak), "")


def _contradictions(soak: Soak) -> Iterator[str]:
    if soak.clients < 1 or soak.looks < 0:
        yield f"a soak of {soak.clients} clients, looked at {soak.looks} times"
    if min(soak.began, soak.wanted, soak.lasted) < 0:
        yield "a soak of less than no time"
    if min(soak.problems.values(), default=0) < 0:
        yield "something went wrong fewer than no times"
    for span in soak.spans:
        if span.kind in soak.left_out:
            yield f"{span.kind} was left out, and was asked"
        for words in _of_span(span):
            yield f"what {span.kind} did from {span.begins:,.0f} s on: {words}"


def _of_span(span: Span) -> Iterator[str]:
    if min(span.asked, span.failed) < 0:
        yield f"{span.asked} requests, of which {span.failed} failed"
    for number, count in (*span.ttft, *span.between):
        if number not in _BINS or count < 0:
            yield f"{count} times in bin {number} of a histogram"
