"""Does a card answer? Every way in which it does not has its own words; a driver that hangs holds up nobody."""

import errno
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.machine import process
from arcops.machine.gpu import Asker, CardIdentity
from arcops.machine.gpu.answer import command, understood
from arcops.machine.gpu.ask import SIZE, VERSION, ask
from tests.helpers import eventually

B70 = CardIdentity("0000:03:00.0", 0x8086, 0xE223, "xe", "Intel Arc Pro B70", "/dev/dri/renderD128")
SECOND = replace(B70, address="0000:08:00.0", render_node="/dev/dri/renderD129")


class Driver:
    """A render node whose open and ioctl end as it is told; counts what is open."""

    def __init__(self, opens: int = 0, answers: int = 0) -> None:
        self.opens, self.answers = opens, answers
        self.asked: list[tuple[int, int]] = []
        self.flags = 0
        self.descriptor = -1

    def open(self, path: str, flags: int) -> int:
        self.flags = flags
        if self.opens:
            raise OSError(self.opens, os.strerror(self.opens))
        self.descriptor = os.open("/dev/null", os.O_RDWR)
        return self.descriptor

    def ioctl(self, descriptor: int, request: int, into: bytearray) -> int:
        self.asked.append((request, len(into)))
        if self.answers:
            raise OSError(self.answers, os.strerror(self.answers))
        return 0


def test_a_card_is_asked_for_its_drivers_version_and_let_go_at_once() -> None:
    for answers, said in ((0, ""), (errno.ECANCELED, "ioctl 125")):
        driver = Driver(answers=answers)
        assert ask("/dev/dri/renderD128", driver.open, driver.ioctl) == said
        assert driver.asked == [(VERSION, SIZE)]
        assert driver.flags == os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(driver.descriptor)
    driver = Driver(opens=errno.ENODEV)
    assert ask("/dev/dri/renderD128", driver.open, driver.ioctl) == "open 19"


@pytest.mark.parametrize(
    ("said", "part", "wedged"),
    [
        (
            "ioctl 125",
            "is wedged (Operation canceled): as root `echo 0000:03:00.0 > /sys/bus/pci/drivers/xe/unbind`",
            True,
        ),
        ("ioctl 5", "is wedged (Input/output error)", True),
        ("ioctl 19", "does not answer (No such device): it was unplugged", True),
        ("open 19", "does not answer (No such device)", True),
        ("open 13", "may not open /dev/dri/renderD128; the group `render`", False),
        ("open 2", "/dev/dri/renderD128 is not there", False),
        ("ioctl 25", "is no device of a graphics driver", False),
        ("open 24", "open /dev/dri/renderD128: Too many open files", False),
    ],
)
def test_every_refusal_has_its_words_and_says_whether_the_card_needs_more_than_a_holders_end(
    said: str, part: str, wedged: bool
) -> None:
    fault = understood(B70, said)
    assert fault is not None
    assert part in fault.words
    assert fault.wedged is wedged


def test_a_card_that_answers_has_no_fault() -> None:
    assert understood(B70, "") is None


@pytest.mark.parametrize(("said", "code"), [("", -9), ("Traceback", 1), ("open x", 0), ("open", 0), ("shut 3", 0)])
def test_what_is_not_understood_is_no_answer(said: str, code: int) -> None:
    with pytest.raises(OSError, match=r"0000:03:00\.0"):
        understood(B70, said, code)


@pytest.mark.parametrize(
    ("card", "part", "wedged"),
    [
        (None, "is gone from the PCI bus", True),
        (replace(B70, driver=None), "no driver is bound", False),
        (replace(B70, render_node=None), "driver xe has made no render node", False),
    ],
)
def test_what_sysfs_says_needs_no_question(card: CardIdentity | None, part: str, wedged: bool) -> None:
    cards = {} if card is None else {card.address: card}
    fault = Asker(command=lambda card: ("/nonexistent",)).fault(cards, [B70.address])
    assert fault is not None
    assert part in fault.words
    assert fault.wedged is wedged


def words(asker: Asker, cards: Mapping[str, CardIdentity], *addresses: str) -> str:
    fault = asker.fault(cards, addresses)
    return "" if fault is None else fault.words


@pytest.mark.processes
def test_a_character_device_that_is_no_card_says_so_for_real() -> None:
    null = replace(B70, render_node="/dev/null")
    asker = Asker(within=120.0)
    assert "/dev/null is no device of a graphics driver" in words(asker, {null.address: null}, null.address)
    nothing = replace(B70, render_node="/dev/dri/renderD255")
    assert "/dev/dri/renderD255 is not there" in words(asker, {nothing.address: nothing}, nothing.address)


@pytest.mark.processes
def test_every_card_of_a_launch_is_asked_and_each_fault_is_told() -> None:
    saying = {"/dev/dri/renderD128": "", "/dev/dri/renderD129": "ioctl 125"}
    asker = Asker(120.0, lambda card: ("printf", "%s", saying[card.render_node or ""]))
    cards = {B70.address: B70, SECOND.address: SECOND}
    assert asker.fault(cards, [B70.address]) is None
    assert words(asker, cards, B70.address, SECOND.address).startswith("card 0000:08:00.0 is wedged")
    assert asker.fault(cards, []) is None
    both = words(asker, {SECOND.address: SECOND}, B70.address, SECOND.address)
    assert both.index("gone from the PCI bus") < both.index("; card 0000:08:00.0 is wedged")


class Hanging:
    """A card whose first question hangs until the driver lets go; every later one is refused at once."""

    def __init__(self, folder: Path) -> None:
        self.lets_go, self.pid = folder / "lets_go", folder / "pid"
        os.mkfifo(self.lets_go)
        self.asked = 0

    def command(self, card: CardIdentity) -> tuple[str, ...]:
        self.asked += 1
        if self.asked > 1:
            return ("printf", "ioctl 125")
        return ("sh", "-c", f'echo $$ > {self.pid}; read word < {self.lets_go}; printf %s "$word"')

    def let_go(self, word: str) -> None:
        self.lets_go.write_text(f"{word}\n")


@pytest.mark.processes
def test_a_driver_that_hangs_is_a_card_that_does_not_answer_and_is_not_asked_twice_at_once(tmp_path: Path) -> None:
    card, cards = Hanging(tmp_path), {B70.address: B70}
    asker = Asker(0.1, card.command)
    for _ in range(3):
        fault = asker.fault(cards, [B70.address])
        assert fault is not None
        assert "does not answer: its driver xe has not come back" in fault.words
        assert "it hangs, and a reboot helps" in fault.words
        assert not fault.wedged
    assert card.asked == 1
    card.let_go("ioctl 125")
    eventually(lambda: "is wedged" in words(asker, cards, B70.address), within=60.0, why="the driver's answer")


@pytest.mark.processes
def test_what_came_back_when_nobody_listened_is_old_and_the_card_is_asked_anew(tmp_path: Path) -> None:
    card, cards = Hanging(tmp_path), {B70.address: B70}
    asker = Asker(0.1, card.command)
    assert "has not come back" in words(asker, cards, B70.address)
    card.let_go("")
    eventually(lambda: process.identify(int(card.pid.read_text() or "0")) is None)
    eventually(lambda: "is wedged" in words(asker, cards, B70.address), within=60.0, why="the new question's answer")
    assert card.asked > 1


def test_the_question_needs_nothing_but_the_standard_library() -> None:
    assert "-I" in command(B70)
    assert "-S" in command(B70)
