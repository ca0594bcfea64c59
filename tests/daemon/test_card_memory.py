"""What is remembered of the cards' memory: the look before, and what each card has when idle."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from arcops.core.cards.attribution import MIB
from arcops.core.cards.clean import Occupancy
from arcops.core.cards.holders import Census, Holding, User
from arcops.core.cards.measures import CardReading, Measure, Quantity
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Card
from arcops.daemon import card_memory
from arcops.daemon.card_memory import APART, CardMemory
from arcops.machine import proc
from arcops.machine.gpu import CardIdentity
from arcops.machine.gpu.base import MACHINE, Roots

CARD = CardIdentity("0000:03:00.0", 0x8086, 0xE223, "xe", "Intel Arc Pro B70", "/dev/dri/renderD128")
OTHER = replace(CARD, address="0000:04:00.0")


def nobody() -> frozenset[int]:
    return frozenset()


@dataclass
class Cards:
    """What the machine would say: MiB in use, who holds them, and how large the card is."""

    used: int | None = 300
    holdings: tuple[Holding, ...] = ()
    total: float | None = 32_768.0
    asked: int = 0
    dark: set[str] = field(default_factory=set[str])

    drivers = frozenset({"xe"})

    def read(self, card: CardIdentity, at: float, roots: Roots = MACHINE) -> CardReading:
        del roots
        self.asked += 1
        said = Unknown("not told", at) if self.total is None else Known(self.total * MIB, at)
        return CardReading(card.address, at, (Measure(Quantity.MEMORY_TOTAL, said, "a test"),))

    def readings(
        self, cards: Sequence[CardIdentity], at: float, ours: object, roots: Roots
    ) -> dict[str, Reading[Census]]:
        del ours, roots
        used: Reading[int] = Unknown("needs CAP_PERFMON", at) if self.used is None else Known(self.used * MIB, at)
        seen = {one.address: Known(Census(one.address, at, self.holdings, (), 0, used), at) for one in cards}
        return {**seen, **{address: Unknown("its driver hangs", at) for address in self.dark}}


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Cards:
    there = Cards()

    def reader(_driver: str | None) -> Cards:
        return there

    monkeypatch.setattr(card_memory, "readings", there.readings)
    monkeypatch.setattr(card_memory, "reader_for", reader)
    return there


def look(memory: CardMemory, at: float, card: CardIdentity = CARD, *, living: bool = False) -> Occupancy:
    found = memory.look((card,), at, lambda: frozenset({1} if living else ()))
    assert isinstance(found, Known)
    (one,) = found.value
    return one


def test_a_look_is_told_with_the_one_before_it(cards: Cards) -> None:
    memory = CardMemory()
    assert isinstance(look(memory, 1.0).earlier, Unknown)
    cards.used = 900
    later = look(memory, 2.0)
    assert later.earlier == Known(300 * MIB, 1.0)
    assert memory.census(CARD.address) == later.census
    assert memory.census(OTHER.address) is None


def test_two_looks_at_the_same_moment_are_one(cards: Cards) -> None:
    memory = CardMemory()
    look(memory, 1.0)
    cards.used = 900
    look(memory, 2.0)
    assert look(memory, 2.0 + APART / 2).earlier == Known(300 * MIB, 1.0)
    assert look(memory, 2.0 + 2 * APART).earlier.at > 2.0


def test_a_look_that_comes_back_late_is_not_the_last_one(cards: Cards) -> None:
    memory = CardMemory()
    look(memory, 5.0)
    cards.used = 24_000
    look(memory, 1.0)
    assert look(memory, 6.0).earlier == Known(300 * MIB, 5.0)


def test_whether_ours_lives_and_who_is_named_and_gone_is_seen(cards: Cards) -> None:
    memory, me = CardMemory(), proc.stat(os.getpid())
    assert me is not None
    here, earlier = User(me.pid, me.start, "python", None, None), User(me.pid, me.start - 1, "python", None, None)
    gone = User(4_100_000, None, None, None, None)
    for user, ended in ((here, False), (replace(here, start=None), False), (earlier, True), (gone, True)):
        cards.holdings = (Holding(1, (user,), MIB, MIB, ours=False),)
        assert look(memory, 1.0).ended == (frozenset({user.pid}) if ended else frozenset())
    assert [look(memory, 1.0, living=living).living for living in (True, False)] == [True, False]


def test_the_size_of_a_card_is_asked_for_until_it_is_known(cards: Cards) -> None:
    memory = CardMemory()
    cards.total = None
    assert isinstance(look(memory, 1.0).total, Unknown)
    cards.total = 32_768.0
    assert look(memory, 2.0).total == look(memory, 3.0).total == Known(32_768 * MIB, 2.0)
    assert cards.asked == 2


def test_one_card_that_cannot_be_counted_makes_the_look_an_absence(cards: Cards) -> None:
    cards.dark = {OTHER.address}
    assert CardMemory().look((CARD, OTHER), 1.0, nobody) == Unknown("its driver hangs", 1.0)


def learnt(cards: Cards, boot: str = "boot") -> str:
    """What a supervisor has kept that has seen 300 MiB on the idle card."""
    kept: list[str] = []
    memory = CardMemory(boot, None, kept.append)
    memory.learn(CARD.address, 300 * MIB)
    assert memory.baseline(CARD.address) is None, "of a card that nobody has looked at nothing is learnt"
    look(memory, 1.0)
    memory.learn(CARD.address, 300 * MIB)
    assert memory.baseline(CARD.address) == 300 * MIB
    del cards
    return kept[-1]


def test_what_a_card_has_when_idle_outlives_the_supervisor_and_not_the_boot_or_the_driver(cards: Cards) -> None:
    kept = learnt(cards)
    next_one = CardMemory("boot", kept)
    assert next_one.baseline(CARD.address) == 300 * MIB
    assert next_one.baseline(OTHER.address) is None
    (compared,) = next_one.compared(Card((look(next_one, 1.0),))).memory
    assert compared.baseline == 300 * MIB
    assert CardMemory("another boot", kept).baseline(CARD.address) is None
    look(next_one, 2.0, replace(CARD, driver="i915"))
    assert next_one.baseline(CARD.address) is None


OF_THIS_BOOT = '{"boot_id": "boot", "cards": {"0000:03:00.0": %s}}'


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", OF_THIS_BOOT % 5, OF_THIS_BOOT % '{"driver": "xe", "used": -1}', OF_THIS_BOOT % "{}"]
)
def test_what_was_kept_and_cannot_be_understood_is_forgotten(cards: Cards, damaged: str) -> None:
    del cards
    assert CardMemory("boot", damaged).baseline(CARD.address) is None


def test_what_is_learnt_of_one_card_leaves_the_others(cards: Cards) -> None:
    memory = CardMemory("boot", learnt(cards))
    look(memory, 1.0, OTHER)
    memory.learn(OTHER.address, 500 * MIB)
    assert (memory.baseline(CARD.address), memory.baseline(OTHER.address)) == (300 * MIB, 500 * MIB)
