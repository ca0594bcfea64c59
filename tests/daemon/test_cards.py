"""The cards' pages: read beside the loop, told at once, and a driver that hangs holds up nobody else."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import pytest

from arcops import wire
from arcops.cards.look import Sight
from arcops.core.cards.figures import NO_FIGURES
from arcops.core.cards.holders import Census
from arcops.core.cards.measures import CardReading
from arcops.core.quantity import Known, Reading, Unknown
from arcops.daemon import card_page, cards
from arcops.daemon.cards import CardBook, Concern, Sources
from arcops.daemon.clock import Clock
from arcops.machine.gpu import CardIdentity
from arcops.machine.gpu.base import Roots
from tests.cards import made
from tests.cards.made import FIRST, SECOND
from tests.daemon.waiting import until

PATIENT = 60.0
"""Seconds; what is waited for takes milliseconds."""
SOON = 0.3
"""Seconds after which a driver counts as hanging here."""


@dataclass(slots=True)
class Machine:
    """Cards that answer what a test wants, and a clock that it may set ahead."""

    concern: Concern = field(default_factory=lambda: Concern((FIRST,)))
    present: tuple[CardIdentity, ...] = (made.identity(FIRST), made.identity(SECOND))
    reading: Callable[[str, float], Reading[CardReading]] = lambda address, at: Known(made.whole(address, at), at)
    hung: dict[str, threading.Event] = field(default_factory=dict[str, threading.Event])
    """Cards whose driver comes back when its event is set."""
    ahead: float = 0.0
    cost: float = 0.0
    """Processor seconds of a reading."""
    reads: list[str] = field(default_factory=list[str])
    counts: list[tuple[tuple[str, ...], Collection[int] | None]] = field(
        default_factory=list[tuple[tuple[str, ...], Collection[int] | None]]
    )
    counting: threading.Event = field(default_factory=threading.Event)
    """Set: a look at holders goes on."""
    looked: Census | None = None

    def __post_init__(self) -> None:
        self.counting.set()

    def monotonic(self) -> float:
        return Clock().monotonic() + self.ahead

    def find(self, _sys: str) -> tuple[CardIdentity, ...]:
        return self.present

    def measure(self, address: str, _earlier: CardReading | None, at: float, _roots: Roots) -> Sight:
        self.reads.append(address)
        if address in self.hung:
            assert self.hung[address].wait(PATIENT)
        found = next((one for one in self.present if one.address == address), None)
        reading = Unknown("there is no such card", at) if found is None else self.reading(address, at)
        return Sight(found, reading, self.cost)

    def count(
        self,
        which: Sequence[CardIdentity],
        at: float,
        ours: Callable[[], frozenset[int]],
        among: Collection[int] | None,
        _roots: Roots,
    ) -> dict[str, Reading[Census]]:
        self.counts.append((tuple(one.address for one in which), among))
        assert self.counting.wait(PATIENT)
        mine = made.census(made.holding(1, 100, ours=True), at=at, everybody=among is None)
        return {one.address: Known(mine, at) for one in which}

    def book(self) -> CardBook:
        sources = Sources(
            concern=lambda: self.concern, ours=lambda: frozenset({7}), looked=lambda _: self.looked, resets=lambda _: 3
        )
        return CardBook(Clock(monotonic=self.monotonic), sources)


def nobody(_address: str, _roots: Roots) -> None:
    """Has the lock."""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made_up = Machine()
    monkeypatch.setattr(card_page, "measure", made_up.measure)
    monkeypatch.setattr(card_page, "lock_holder", nobody)
    monkeypatch.setattr(cards, "find_cards", made_up.find)
    monkeypatch.setattr(cards, "readings", made_up.count)
    for room, name in ((card_page, "READ_WITHIN"), (cards, "READ_WITHIN"), (cards, "ANSWER_WITHIN")):
        monkeypatch.setattr(room, name, PATIENT)
    monkeypatch.setattr(cards, "RATE_AFTER", 0.01)
    monkeypatch.setattr(cards, "EVERY", 0.01)
    monkeypatch.setattr(cards, "OLD_AFTER", PATIENT)
    return made_up


@contextmanager
def hanging(machine: Machine, address: str) -> Generator[threading.Event]:
    """Its driver does not come back until the event is set, or the block ends."""
    event = machine.hung[address] = threading.Event()
    try:
        yield event
    finally:
        event.set()


@asynccontextmanager
async def sampling(book: CardBook) -> AsyncGenerator[CardBook]:
    task = asyncio.create_task(book.run())
    try:
        yield book
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.asyncio
async def test_the_cards_of_concern_are_read_and_told_at_once(machine: Machine) -> None:
    async with sampling(machine.book()) as book:
        assert book.glances() == (), "nobody has read it yet"
        await until(lambda: bool(book.glances() and book.glances()[0].power), PATIENT)
        (glance,) = book.glances()
    assert (glance.address, glance.name) == (FIRST, "Intel Arc Pro B70")
    assert (glance.memory_used, glance.memory_total, glance.power) == (17.0 * made.GIB, 32.0 * made.GIB, 183.0)
    assert (glance.temperature, glance.clock, glance.busy) == (61.0, 2400.0, 0.97)
    assert (glance.throttling, glance.resets, glance.absent) == ((), 3, {})
    assert set(machine.reads) == {FIRST}, "the other card is nobody's concern"


@pytest.mark.asyncio
async def test_without_a_backend_or_a_client_a_card_is_left_alone_and_a_client_wakes_the_reading(
    machine: Machine,
) -> None:
    async with sampling(machine.book()) as book:
        await until(lambda: bool(machine.reads), PATIENT)
        await asyncio.sleep(20 * cards.EVERY)
        assert len(machine.reads) == 1
        book.glances()
        await until(lambda: len(machine.reads) >= 3, PATIENT)


@pytest.mark.asyncio
async def test_while_a_backend_lives_its_card_is_read_and_its_memory_counted(machine: Machine) -> None:
    machine.concern = Concern((FIRST,), alive=True)
    async with sampling(machine.book()):
        await until(lambda: len(machine.reads) >= 3, PATIENT)
    assert machine.counts == [((FIRST,), frozenset({7}))], "of our own backend alone, and not at each reading"


@pytest.mark.asyncio
async def test_a_reading_that_costs_much_is_made_seldom_but_at_a_clients_word(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.concern, machine.cost = Concern((FIRST,), alive=True), PATIENT * card_page.SHARE
    monkeypatch.setattr(cards, "FRESH", 0.0)
    async with sampling(machine.book()) as book:
        await until(lambda: bool(machine.reads), PATIENT)
        await asyncio.sleep(20 * cards.EVERY)
        assert len(machine.reads) == 1
        await book.look(everybody=False)
        assert machine.reads.count(FIRST) >= 2
        machine.ahead = 2 * PATIENT
        before = machine.reads.count(FIRST)
        await until(lambda: machine.reads.count(FIRST) > before, PATIENT)


@pytest.mark.asyncio
async def test_absences_come_with_their_reasons(machine: Machine) -> None:
    machine.reading = lambda address, at: Unknown("its driver cannot be asked: Input/output error", at)
    async with sampling(machine.book()) as book:
        await until(lambda: bool(book.glances()), PATIENT)
        await until(lambda: "Input/output" in book.glances()[0].absent["power"], PATIENT)
        (glance,) = book.glances()
    assert (glance.memory_used, glance.throttling) == (None, None)
    assert {"memory_used", "memory_total", "power", "temperature", "clock", "busy", "throttling"} == set(glance.absent)
    assert book.figures() == NO_FIGURES


@pytest.mark.asyncio
async def test_a_driver_that_hangs_holds_up_its_own_card_alone_and_is_told_for_how_long(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_page, "READ_WITHIN", SOON)
    monkeypatch.setattr(cards, "FRESH", 0.0)
    book = machine.book()
    with hanging(machine, FIRST) as back:
        first, second = (await book.look(everybody=False)).cards
        assert (first.address, second.address) == (FIRST, SECOND)
        assert hangs_for(first) < 80
        assert all(one.value is not None for one in second.measures)
        machine.ahead = 90.0
        first, second = (await book.look(everybody=False)).cards
        assert hangs_for(first) >= 90
        assert machine.reads.count(FIRST) == 1, "one attempt hangs, and no second one beside it"
        assert machine.reads.count(SECOND) >= 2
        back.set()
        async with sampling(book):
            await until(lambda: book.told().cards[0].measures[0].value is not None, PATIENT)


def hangs_for(card: wire.CardInfo) -> int:
    """Seconds for which its driver has not come back, as it is told of each measure."""
    (why,) = {one.absent for one in card.measures}
    found = re.fullmatch(r"its driver has not come back for (\d+) s", why)
    assert found is not None, why
    return int(found[1])


@pytest.mark.asyncio
async def test_a_client_is_answered_in_time_whatever_hangs(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "ANSWER_WITHIN", SOON)
    book = machine.book()
    with hanging(machine, FIRST):
        async with asyncio.timeout(PATIENT):
            await book.look(everybody=True)
            while not (told := book.told().cards) or told[-1].census is None or told[-1].measures[0].value is None:
                await book.look(everybody=True)
    assert [one.address for one in told] == [FIRST, SECOND]
    assert {one.absent for one in told[0].measures} == {"nobody has looked yet"}


@pytest.mark.asyncio
async def test_there_is_one_look_at_everybody_at_a_time_whoever_asks(machine: Machine) -> None:
    book = machine.book()
    machine.counting.clear()
    asked = [asyncio.create_task(book.look(everybody=True)) for _ in range(5)]
    await until(lambda: bool(machine.counts), PATIENT)
    machine.counting.set()
    told = await asyncio.gather(*asked)
    assert machine.counts == [((FIRST, SECOND), None)]
    assert all(one.census is not None and one.census.everybody for page in told for one in page.cards)


@pytest.mark.asyncio
async def test_a_look_at_everybody_stands_for_a_while_before_those_at_ours_alone(machine: Machine) -> None:
    machine.concern = Concern((FIRST,), alive=True)
    async with sampling(machine.book()) as book:
        await until(lambda: bool(machine.counts), PATIENT)
        await book.look(everybody=True)
        assert [one.everybody for one in censuses(book)] == [True, True]
        machine.ahead = card_page.STANDS_FOR + cards.COUNT_EVERY
        await until(lambda: len(machine.counts) >= 3, PATIENT)
        await until(lambda: not censuses(book)[0].everybody, PATIENT)


def censuses(book: CardBook) -> list[wire.CardCensus]:
    return [one.census for one in book.told().cards if one.census is not None]


@pytest.mark.asyncio
async def test_the_look_before_a_launch_is_told_as_well(machine: Machine) -> None:
    book = machine.book()
    machine.looked = made.census(made.holding(9, 5), at=machine.monotonic())
    first = (await book.look(everybody=False)).cards[0]
    assert first.census is not None
    assert [one.client for one in first.census.holdings] == [9]
    assert machine.counts == []


@pytest.mark.asyncio
async def test_a_card_that_is_gone_stays_with_the_reason_and_no_old_numbers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "FRESH", 0.0)
    book = machine.book()
    await book.look(everybody=False)
    machine.present = (made.identity(SECOND),)
    first = (await book.look(everybody=False)).cards[0]
    assert first.address == FIRST
    assert {one.absent for one in first.measures} == {"there is no such card"}
    assert first.ordinal is None
    assert book.glances()[0].memory_used is None


@pytest.mark.asyncio
async def test_an_ordered_card_that_never_was_here_is_told_as_such(machine: Machine) -> None:
    machine.present = ()
    async with sampling(machine.book()) as book:
        await until(lambda: bool(book.glances()), PATIENT)
        await until(lambda: book.glances()[0].absent["power"] == "there is no such card", PATIENT)
        (card,) = (await book.look(everybody=True)).cards
    assert (card.address, card.vendor, card.name, card.driver) == (FIRST, 0, None, None)


@pytest.mark.asyncio
async def test_a_lock_that_is_ours_is_known_without_a_search(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def search(address: str, _roots: Roots) -> str:
        searched.append(address)
        return "pid 9 (arcopsd) of user somebody"

    monkeypatch.setattr(card_page, "lock_holder", search)
    machine.concern = Concern((FIRST,), locks=(f"/sys/bus/pci/devices/{FIRST}",))
    first, second = (await machine.book().look(everybody=False)).cards
    assert first.lock_holder == "this supervisor and its backend"
    assert second.lock_holder == "pid 9 (arcopsd) of user somebody"
    assert searched == [SECOND]


@pytest.mark.asyncio
async def test_a_fault_of_ours_in_one_look_is_an_absence(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("what now")

    monkeypatch.setattr(card_page, "measure", broken)
    monkeypatch.setattr(cards, "readings", broken)
    (first, _) = (await machine.book().look(everybody=True)).cards
    assert {one.absent for one in first.measures} == {"it cannot be looked at: ZeroDivisionError what now"}
    assert first.census_absent == "who holds it cannot be looked at: ZeroDivisionError what now"
    capsys.readouterr()


@pytest.mark.asyncio
async def test_a_fault_of_ours_in_one_turn_ends_no_sampling(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cards, "SELDOM", 0.01)
    faults = [ZeroDivisionError("what now")]

    def concern() -> Concern:
        if faults:
            raise faults.pop()
        return machine.concern

    book = CardBook(Clock(monotonic=machine.monotonic), Sources(concern=concern, ours=frozenset))
    async with sampling(book):
        await until(lambda: bool(machine.reads), PATIENT)
    assert "what now" in capsys.readouterr().out


@pytest.mark.asyncio
async def test_the_history_gets_the_cards_together_and_nothing_that_is_old(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.concern = Concern((FIRST, SECOND))
    async with sampling(machine.book()) as book:
        assert book.figures() == NO_FIGURES
        await until(lambda: book.figures().power == 366.0, PATIENT)
        assert (book.figures().memory, book.figures().clock) == (34.0 * made.GIB, 2400.0)
    monkeypatch.setattr(cards, "OLD_AFTER", -1.0)
    assert book.figures() == NO_FIGURES
