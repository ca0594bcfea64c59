"""A soak that contradicts itself is not believed either."""

from dataclasses import replace

import msgspec
import pytest

from arcops.core.errors import ArcopsError
from arcops.core.evidence.possible_soak import impossible
from arcops.core.evidence.soak import Soak, Span, bin_of
from arcops.evidence import sealed
from tests.core.evidence.measured import record
from tests.core.evidence.test_soaked import CLEAN

SPAN = Span("short", 0.0, 1.0, 2, 0, ttft=((bin_of(0.1), 2),))


def test_what_a_soak_writes_is_possible() -> None:
    assert impossible(replace(CLEAN, spans=(SPAN,))) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(SPAN, ttft=((10**12, 1),)), "1 times in bin 1000000000000"),
        (replace(SPAN, between=((bin_of(0.1), -1),)), "-1 times"),
        (replace(SPAN, asked=-1), "-1 requests"),
        (replace(SPAN, failed=-1), "of which -1 failed"),
    ],
)
def test_a_span_that_cannot_be(changed: Span, words: str) -> None:
    assert words in impossible(replace(CLEAN, spans=(changed,)))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(CLEAN, clients=0), "0 clients"),
        (replace(CLEAN, looks=-1), "looked at -1 times"),
        (replace(CLEAN, lasted=-1.0), "less than no time"),
        (replace(CLEAN, problems={"short: refused": -1}), "fewer than no times"),
        (replace(CLEAN, spans=(SPAN,), left_out={"short": "HTTP 400"}), "short was left out, and was asked"),
    ],
)
def test_a_soak_that_cannot_be(changed: Soak, words: str) -> None:
    assert words in impossible(changed)


def test_a_record_of_one_is_refused() -> None:
    made = msgspec.structs.replace(record(), kind="soak", run=None, identity=None, soak=replace(CLEAN, clients=0))
    with pytest.raises(ArcopsError, match="0 clients"):
        sealed.opened(sealed.sealed(made), "R")
