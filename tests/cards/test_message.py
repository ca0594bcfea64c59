"""Cards as messages: numbers as the runtimes count, who is allowed, and a reason for everything that is not known."""

import msgspec
import pytest

from arcops import wire
from arcops.cards.message import Card, Numbering, Writer, glance_of
from arcops.core.cards.holders import Holding
from arcops.core.cards.incidents import Incident, Kind, Source
from arcops.core.cards.measures import CardReading, Detail, Quantity
from arcops.core.quantity import Known, Unknown
from arcops.machine.gpu import CardIdentity
from tests.cards import made
from tests.cards.made import FIRST, MIB

OFFSET = 1_796_000_000.0
"""Seconds that the wall clock is ahead of the monotonic one."""
INTEGRATED = CardIdentity("0000:00:02.0", 0x8086, 0x7D55, "i915", None, "/dev/dri/renderD129")
NVIDIA = CardIdentity("0000:01:00.0", 0x10DE, 0x2335, "nvidia", None, None)
GIVEN_AWAY = CardIdentity("0000:02:00.0", 0x8086, 0xE223, "vfio-pci", "Intel Arc Pro B70", None)


def writer(*cards: CardIdentity, allowed: tuple[str, ...] = ()) -> Writer:
    return Writer(lambda at: at + OFFSET, Numbering(cards or (made.identity(),)), allowed)


def test_cards_are_numbered_as_level_zero_and_cuda_count_them() -> None:
    b70 = made.identity("0000:83:00.0")
    numbering = Numbering((INTEGRATED, NVIDIA, GIVEN_AWAY, made.identity(FIRST), b70))
    assert (numbering.ordinal(made.identity(FIRST)), numbering.ordinal(b70)) == (0, 1), "discrete ones first"
    assert numbering.mask(b70) == "ZE_AFFINITY_MASK=1"
    assert (numbering.ordinal(INTEGRATED), numbering.mask(INTEGRATED)) == (2, "ZE_AFFINITY_MASK=2")
    assert (numbering.ordinal(NVIDIA), numbering.mask(NVIDIA)) == (0, "CUDA_VISIBLE_DEVICES=0")
    assert (numbering.ordinal(GIVEN_AWAY), numbering.mask(GIVEN_AWAY)) == (None, None)


def test_a_card_that_is_known_has_every_value_with_its_unit_and_source() -> None:
    reading = made.whole(at=5.0)
    info = writer().info(Card(made.identity(), Known(reading, 5.0), lock=Known(None, 5.0), resets=2))
    assert (info.address, info.name, info.at, info.resets) == (FIRST, "Intel Arc Pro B70", OFFSET + 5.0, 2)
    told = {(one.quantity, one.part): (one.value, one.unit, one.absent) for one in info.measures}
    assert told["power", "card"] == (183.0, "W", "")
    assert told["clock", "gt0"] == (2400.0, "MHz", "")
    assert {one.source for one in info.measures} == {"a made-up source"}
    assert (info.lock_holder, info.lock_absent) == (None, ""), "nobody has it, and that is known"
    assert (info.throttling, info.throttling_absent) == ((), "")
    assert (info.census, info.census_absent) == (None, "nobody has looked yet")
    assert msgspec.json.decode(wire.encode(info), type=wire.CardInfo) == info


def test_a_card_that_arcops_has_no_name_for_is_called_what_its_driver_calls_it() -> None:
    reading = CardReading(NVIDIA.address, 5.0, details=(Detail("name", Known("NVIDIA H200", 5.0), "NVML"),))
    card = Card(NVIDIA, Known(reading, 5.0))
    assert (writer().info(card).name, writer().glance(card).name) == ("NVIDIA H200", "NVIDIA H200")
    assert writer().info(Card(NVIDIA, Unknown("it hangs", 5.0))).name is None


def test_a_card_that_could_not_be_read_says_why_for_whatever_is_looked_for() -> None:
    card = Card(made.identity(), Unknown("its driver has not come back for 12 s", 7.0))
    info, glance = writer().info(card), writer().glance(card)
    assert {one.absent for one in info.measures} == {"its driver has not come back for 12 s"}
    assert {one.value for one in info.measures} == {None}
    assert info.throttling is None
    assert set(glance.absent) == {"memory_used", "memory_total", "power", "temperature", "clock", "busy", "throttling"}
    assert info.lock_absent == "nobody has looked yet"


def test_a_glance_gives_reasons_for_what_is_missing_alone() -> None:
    reading = made.reading(
        made.measure(Quantity.MEMORY_USED, "needs CAP_PERFMON"), made.measure(Quantity.CLOCK, 0.0, "gt0")
    )
    glance = writer().glance(Card(made.identity(), Known(reading, 0.0)))
    assert (glance.memory_used, glance.clock) == (None, 0.0), "a clock that stands is known"
    assert glance.absent["memory_used"] == "needs CAP_PERFMON"
    assert "clock" not in glance.absent
    assert "throttling" not in glance.absent


def test_a_card_that_arcops_has_no_name_for_is_called_as_its_driver_calls_it() -> None:
    def named(card: CardIdentity, *details: Detail) -> str | None:
        told = Card(card, Known(CardReading(card.address, 0.0, details=details), 0.0))
        assert writer().info(told).name == writer().glance(told).name
        return writer().info(told).name

    said = Detail("name", Known("NVIDIA H200", 0.0), "NVML")
    assert named(NVIDIA, said) == "NVIDIA H200"
    assert named(made.identity(), said) == "Intel Arc Pro B70"
    assert named(NVIDIA, Detail("name", Unknown("NotSupported", 0.0), "NVML")) is None
    assert named(NVIDIA) is None


def test_times_that_never_were_are_no_times() -> None:
    info = writer().info(Card(made.identity()))
    assert info.at == 0.0
    assert glance_of(Unknown("so it is", 0.0)).power == Unknown("so it is", 0.0)


@pytest.mark.parametrize(
    ("holding", "allowed"),
    [
        (made.holding(1, 5, made.user(1, "gnome-shell")), True),
        (made.holding(1, 5, made.user(1, "gnome-shell"), made.user(2, "Xwayland")), True),
        (made.holding(1, 5, made.user(1, "gnome-shell"), made.user(2, "python")), False),
        (made.holding(1, 5, made.user(1, None)), False),
        (made.holding(1, 5, made.user(1, "gnome-shell"), ours=True), False),
        (Holding(1, (), 5, 5, False), False),
    ],
    ids=["its command", "all of its commands", "not all of them", "no command", "ours", "nobody"],
)
def test_a_holder_is_allowed_by_its_command_if_all_who_share_it_are(holding: Holding, allowed: bool) -> None:
    census = writer(allowed=("gnome-shell", "Xwayland")).census(made.census(holding, used=100 * MIB))
    assert [one.allowed for one in census.holdings] == [allowed]


def test_a_census_tells_what_nobody_can_be_named_for_or_why_that_is_unknown() -> None:
    told = writer().census(made.census(made.holding(1, 70), used=100 * MIB, at=3.0))
    assert (told.unattributed, told.unattributed_absent, told.at) == (30 * MIB, "", OFFSET + 3.0)
    unknown = writer().census(made.census(made.holding(1, None), used=100 * MIB))
    assert unknown.unattributed is None
    assert unknown.unattributed_absent


def test_incidents_are_told_in_words_that_are_an_interface() -> None:
    incident = Incident(9.0, FIRST, Kind.JOB_TIMEOUT, "Timedout job", Source.KERNEL_LOG, engine="ccs", pid=7)
    (told,) = writer().info(Card(made.identity(), incidents=(incident,))).incidents
    assert (told.at, told.kind, told.engine, told.pid, told.source) == (
        OFFSET + 9.0,
        "job_timeout",
        "ccs",
        7,
        "kernel log",
    )


def test_no_absence_is_without_a_reason() -> None:
    empty = CardReading(FIRST, 1.0)
    glance = writer().glance(Card(made.identity(), Known(empty, 1.0)))
    assert all(glance.absent.values())
    assert glance.absent["throttling"] == "not in this driver"
