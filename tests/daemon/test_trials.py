"""Cards are tried beside the loop, one trial at a time; whatever comes of it is told, and the loop is woken."""

import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from arcops.core.cards.health import Health, Verdict
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Unknown
from arcops.core.state import State
from arcops.core.world import NOT_TRIED
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.daemon.trials import Trials, subject_of
from arcops.machine.gpu.health import Examiner, Subject
from arcops.machine.store import Store
from tests.core.simulated import launch
from tests.daemon.waiting import until

ALPHA = launch()
OTHER = launch("other", cards=("0000:04:00.0",))
WELL = Health(Verdict.HEALTHY, "card 0000:03:00.0 computes")
STATE = State()


class Held(Examiner):
    """A trial that goes on until it is let go, and comes to what it is told."""

    def __init__(self, comes_to: Health | Exception = WELL) -> None:
        super().__init__()
        self.comes_to = comes_to
        self.subjects: list[Subject] = []
        self.let_go = threading.Event()
        self.closed = False

    def examine(self, subject: Subject) -> Health:
        self.subjects.append(subject)
        self.let_go.wait(60.0)
        if isinstance(self.comes_to, Exception):
            raise self.comes_to
        return self.comes_to

    def close(self) -> None:
        self.closed = True
        self.let_go.set()


def subject(one: Launch, environment: Mapping[str, str]) -> Subject:
    return Subject(one.argv[0], one.cards, ("xe",), environment)


@asynccontextmanager
async def trials(
    folder: Path, examiner: Examiner, woken: list[int]
) -> AsyncGenerator[tuple[Trials, Callable[[], list[str]]]]:
    store = Store.open(str(folder / "db"))
    clock = Clock()
    journal = Journal(store, clock, "boot")
    found = Trials(clock, journal, lambda: woken.append(1), examiner, subject)
    try:
        yield found, lambda: [event.reason for event in journal.events(0, 100) if event.kind == "card"]
    finally:
        found.close()
        await journal.close()
        store.close()


@pytest.mark.asyncio
async def test_a_trial_is_made_once_at_a_time_and_its_words_are_in_the_history(tmp_path: Path) -> None:
    examiner, woken = Held(), list[int]()
    async with trials(tmp_path, examiner, woken) as (made, told):
        assert made.seen(ALPHA) is NOT_TRIED
        for _ in range(3):
            made.begin(ALPHA, {"ZE_AFFINITY_MASK": "0"}, STATE)
            await until(lambda: len(examiner.subjects) > 0)
        assert (made.seen(ALPHA), woken) == (NOT_TRIED, [])
        examiner.let_go.set()
        await until(lambda: bool(woken))
        found = made.seen(ALPHA)
        assert isinstance(found, Known)
        assert found.value == WELL
        assert told() == ["tried: healthy: card 0000:03:00.0 computes"]
        assert [one.environment for one in examiner.subjects] == [{"ZE_AFFINITY_MASK": "0"}]
        assert made.seen(OTHER) is NOT_TRIED, "what another card came to says nothing of this one"
        assert made.seen(None) is NOT_TRIED


@pytest.mark.asyncio
async def test_its_time_is_that_of_its_beginning(tmp_path: Path) -> None:
    examiner, woken = Held(), list[int]()
    async with trials(tmp_path, examiner, woken) as (made, _):
        before = Clock().monotonic()
        made.begin(ALPHA, {}, STATE)
        await until(lambda: len(examiner.subjects) > 0)
        begun = Clock().monotonic()
        examiner.let_go.set()
        await until(lambda: bool(woken))
        assert before <= made.seen(ALPHA).at <= begun


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("comes_to", "told_as"),
    [
        (Health(Verdict.WEDGED, "card X hangs", "reboot"), "tried: wedged: card X hangs; reboot"),
        (Health(Verdict.INCONCLUSIVE, "torch is not there"), "tried: inconclusive: torch is not there"),
        (OSError("out of descriptors"), "the card could not be tried: OSError out of descriptors"),
        (ZeroDivisionError("a fault of ours"), "the card could not be tried: ZeroDivisionError a fault of ours"),
    ],
)
async def test_whatever_comes_of_it_is_told_and_the_loop_does_not_wait_for_ever(
    tmp_path: Path, comes_to: Health | Exception, told_as: str
) -> None:
    examiner, woken = Held(comes_to), list[int]()
    examiner.let_go.set()
    async with trials(tmp_path, examiner, woken) as (made, told):
        made.begin(ALPHA, {}, STATE)
        await until(lambda: bool(woken))
        assert told() == [told_as]
        assert isinstance(made.seen(ALPHA), Known if isinstance(comes_to, Health) else Unknown)


@pytest.mark.asyncio
async def test_the_end_of_the_daemon_waits_for_no_trial_and_ends_its_child(tmp_path: Path) -> None:
    examiner, woken = Held(), list[int]()
    async with trials(tmp_path, examiner, woken) as (made, told):
        made.begin(ALPHA, {}, STATE)
        await until(lambda: len(examiner.subjects) > 0)
        made.close()
        assert examiner.closed
        assert (told(), woken) == ([], [])


def test_a_launch_on_the_processor_is_tried_there_and_a_card_that_is_gone_has_no_driver() -> None:
    assert subject_of(launch(cards=()), {}).kind == "cpu"
    gone = subject_of(launch(cards=("ffff:ff:1f.7",)), {})
    assert (gone.drivers, gone.kind) == ((None,), None)
