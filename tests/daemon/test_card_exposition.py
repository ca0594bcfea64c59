"""The cards in `/metrics`: base units, stable names, and no sample for what is unknown or old."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from arcops import wire
from arcops.core.cards.measures import Quantity
from arcops.daemon.card_exposition import NAMES, OLD_AFTER, held
from arcops.daemon.exposition import exposition
from tests.cards import made
from tests.tui import scenes

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "operating.md"


def samples(*infos: wire.CardInfo, at: float = made.NOW) -> dict[tuple[str, str], float]:
    """Every sample of a card, by its name and its last label."""
    text = exposition(scenes.status(), turns=1, cards=made.cards(*infos, at=at)).decode()
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name.startswith("arcops_card_"):
                rest = [value for name, value in one.labels.items() if name not in ("card", "driver")]
                key = (one.name, rest[0] if rest else "")
                assert key not in found, "one sample told twice"
                found[key] = one.value
    return found


def test_values_are_in_prometheus_base_units() -> None:
    found = samples(made.info())
    assert found["arcops_card_memory_used_bytes", ""] == 17.0 * made.GIB
    assert found["arcops_card_clock_hertz", "gt0"] == 2.4e9
    assert found["arcops_card_clock_hertz", "gt1"] == 0.0, "a clock that stands is known"
    assert found["arcops_card_link_speed_transfers_per_second", ""] == 32e9
    assert found["arcops_card_power_watts", "card"] == 183.4
    assert found["arcops_card_busy_ratio", "gt0"] == 0.97
    assert found["arcops_card_memory_held_bytes", "ours"] == 16_800 * made.MIB
    assert found["arcops_card_memory_held_bytes", "foreign"] == 0.0
    assert found["arcops_card_resets_total", ""] == 0.0
    assert found["arcops_card_throttling", "none"] == 1.0
    assert found["arcops_card_info", "Intel Arc Pro B70"] == 1.0


def test_what_is_unknown_has_no_sample() -> None:
    found = samples(
        made.info(
            measures=(made.told(Quantity.MEMORY_USED, None, absent="needs CAP_PERFMON"),),
            throttling=None,
            census=None,
            baseline=None,
            resets=None,
        )
    )
    assert {name for name, _ in found} == {"arcops_card_info"}


def test_each_reason_of_throttling_is_told_once() -> None:
    found = samples(made.info(throttling=("pl1", "thermal", "pl1")))
    assert {label for name, label in found if name == "arcops_card_throttling"} == {"pl1", "thermal"}


def test_a_part_that_tells_a_quantity_twice_is_one_sample() -> None:
    twice = (made.told(Quantity.TEMPERATURE, 61.0, "pkg"), made.told(Quantity.TEMPERATURE, 63.0, "pkg"))
    assert samples(made.info(measures=twice))["arcops_card_temperature_celsius", "pkg"] == 61.0


@pytest.mark.parametrize(
    ("census", "expected"),
    [
        (
            made.looked(made.held(5, ours=True), made.held(7), made.held(2, allowed=True), unattributed=3),
            {"ours": 5, "allowed": 2, "foreign": 7, "unattributed": 3},
        ),
        (
            made.looked(made.held(None), unattributed=None),
            {"ours": 0, "allowed": 0, "foreign": None, "unattributed": None},
        ),
        (made.looked(made.held(None, ours=True), everybody=False, unattributed=3), {"ours": None}),
        (made.looked(made.held(5, ours=True), everybody=False), {"ours": 5}),
    ],
    ids=["everybody", "a holder of unknown size", "ours of unknown size", "ours alone"],
)
def test_memory_is_told_by_whom_it_is_held_as_far_as_that_was_seen(
    census: wire.CardCensus, expected: dict[str, int | None]
) -> None:
    in_mib = {
        kind: size if kind == "unattributed" or not size else size // made.MIB for kind, size in held(census).items()
    }
    assert in_mib == expected


def test_what_was_seen_long_ago_is_told_no_more() -> None:
    assert samples(made.info(), at=made.NOW + OLD_AFTER + 1.0) == {}
    looked = made.looked(made.held(7), at=made.NOW - OLD_AFTER - 1.0)
    assert not [name for name, _ in samples(made.info(census=looked)) if name == "arcops_card_memory_held_bytes"]


def test_every_quantity_has_a_name_and_every_name_stands_in_the_document_and_no_other() -> None:
    assert set(NAMES) == set(Quantity)
    everything = tuple(made.told(quantity, 1.0) for quantity in Quantity)
    there = {name for name, _ in samples(made.info(measures=everything))}
    table = DOCUMENT.read_text().partition("<!-- card metrics -->")[2].partition("<!-- end of card metrics -->")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == there
