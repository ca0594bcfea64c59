"""What holds for every driver: where a card is, which of two, whether it is still there, and garbage in any file."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.quantity import Unknown
from arcops.machine.gpu import link, sysfs
from arcops.machine.gpu.amdgpu import AmdgpuReader
from arcops.machine.gpu.base import CardReader
from arcops.machine.gpu.i915 import I915Reader
from arcops.machine.gpu.xe import XeReader
from tests.machine.gpu.readings import AT, absence, detail, is_sound, laid, value
from tests.trees.nodes import VRAM, I915Node, XeNode
from tests.trees.sysfs import GIB, SLOT, Bridge, Broken, Card, Content, a770, b70, device, radeon, spoilt, switched

SHAPES = {"xe": b70, "i915": a770, "amdgpu": radeon}
REGIONS = ((VRAM, 32 * GIB, GIB),)


def reader(driver: str) -> CardReader:
    readers: dict[str, CardReader] = {
        "xe": XeReader(XeNode(REGIONS)),
        "i915": I915Reader(I915Node(REGIONS)),
        "amdgpu": AmdgpuReader(),
    }
    return readers[driver]


@pytest.fixture(params=SHAPES)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_reader_of_each_driver_reads_that_driver_alone(driver: str) -> None:
    assert reader(driver).drivers == {driver}


def test_two_cards_of_the_same_model_are_not_mixed_up(tmp_path: Path, driver: str) -> None:
    first, second = SHAPES[driver]("0000:03:00.0", 0), SHAPES[driver]("0000:83:00.0", 1)
    fan = "hwmon/hwmon4/fan1_input"
    roots, found = laid(tmp_path, first.having({fan: "1111"}), second.having({fan: "2222"}))
    readings = [reader(driver).read(found[address], AT, roots) for address in ("0000:03:00.0", "0000:83:00.0")]
    assert [value(one, Quantity.FAN, "fan1") for one in readings] == [1111, 2222]
    assert [one.address for one in readings] == ["0000:03:00.0", "0000:83:00.0"]


def test_a_card_with_other_numbers_after_a_rebind_reads_as_before(tmp_path: Path, driver: str) -> None:
    card = SHAPES[driver]()
    after = a770(minor=3) if driver == "i915" else card.renumbered(3)
    roots, found = laid(tmp_path, card)
    before = reader(driver).read(found[card.address], AT, roots)
    roots, found = laid(tmp_path, after)
    assert found[card.address].render_node == "/dev/dri/renderD131"
    again = reader(driver).read(found[card.address], AT, roots)
    assert again.measures == before.measures
    assert again.details == before.details


def test_a_card_that_has_gone_has_no_value_left_and_says_so(tmp_path: Path, driver: str) -> None:
    card = SHAPES[driver]()
    roots, found = laid(tmp_path, card)
    shutil.rmtree(device(tmp_path, card))
    reading = reader(driver).read(found[card.address], AT, roots)
    is_sound(reading)
    assert_all_absent(reading, sysfs.GONE)
    assert absence(reading, Quantity.TEMPERATURE) == sysfs.GONE
    assert absence(reading, Quantity.MEMORY_USED) == sysfs.GONE


def test_a_card_that_was_given_to_another_driver_has_no_value_left(tmp_path: Path, driver: str) -> None:
    card = SHAPES[driver]()
    roots, found = laid(tmp_path, card)
    (device(tmp_path, card) / "driver").unlink()
    (device(tmp_path, card) / "driver").symlink_to("/sys/bus/pci/drivers/vfio-pci")
    assert_all_absent(
        reader(driver).read(found[card.address], AT, roots), f"driver {driver} is not bound to it any more"
    )


def test_a_card_that_was_unbound_has_no_value_left_and_one_that_never_was_bound_says_so(tmp_path: Path) -> None:
    card = b70()
    roots, found = laid(tmp_path, card)
    (device(tmp_path, card) / "driver").unlink()
    assert_all_absent(reader("xe").read(found[card.address], AT, roots), "driver xe is not bound to it any more")
    unbound = reader("xe").read(replace(found[card.address], driver=None), AT, roots)
    is_sound(unbound)
    assert detail(unbound, "driver") == "absent: no driver is bound"


@pytest.mark.parametrize("reads", [0, 1, 5, 17, 40])
def test_a_card_that_vanishes_in_the_middle_of_a_reading_leaves_no_half_of_it(
    tmp_path: Path, driver: str, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = SHAPES[driver]()
    roots, found = laid(tmp_path, card)
    done: list[str] = []
    read = sysfs.read

    def read_until_gone(path: str) -> str:
        done.append(path)
        if len(done) > reads:
            shutil.rmtree(device(tmp_path, card), ignore_errors=True)
        return read(path)

    monkeypatch.setattr(sysfs, "read", read_until_gone)
    reading = reader(driver).read(found[card.address], AT, roots)
    is_sound(reading)
    gone = len(done) > reads
    assert gone or reads == 40, "this reading is longer than that"
    if gone:
        assert_all_absent(reading, sysfs.GONE)


def test_what_this_user_may_not_read_is_said_to_be_so(
    tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = SHAPES[driver]()
    roots, found = laid(tmp_path, card)
    read = sysfs.read

    def read_if_allowed(path: str) -> str:
        if "hwmon" in path and path.endswith("_input"):
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(sysfs, "read", read_if_allowed)
    reading = reader(driver).read(found[card.address], AT, roots)
    assert absence(reading, Quantity.TEMPERATURE) == "this user may not read it"


ENDPOINT = {"current_link_width": "16", "current_link_speed": "8.0 GT/s PCIe", "max_link_width": "16"}
INNER = {"current_link_width": "1", "current_link_speed": "2.5 GT/s PCIe"}
LINKS: dict[str, tuple[tuple[Bridge, ...], dict[str, str], float | None, float | None]] = {
    "of a card with a switch is that to the slot": (switched(SLOT), INNER, 8, 16),
    "behind another maker's root port is the same": (switched(SLOT, root_vendor="0x1022"), INNER, 8, 16),
    "of a card without a switch is its own": ((Bridge("0000:00:01.0", "0x8086", SLOT),), ENDPOINT, 16, 8),
    "of a card behind another maker's switch is its own": (switched(SLOT, vendor="0x10b5"), ENDPOINT, 16, 8),
    "of a card without bridges is its own": ((), ENDPOINT, 16, 8),
    "that sleeps is no speed of 0": (
        switched({"current_link_width": "0", "current_link_speed": "Unknown"}),
        INNER,
        None,
        None,
    ),
    "of absurd width is none": (switched({"current_link_width": "255"}), INNER, None, None),
}


@pytest.mark.parametrize("situation", LINKS)
def test_the_link(tmp_path: Path, situation: str) -> None:
    bridges, own, width, speed = LINKS[situation]
    card = b70()
    card = Card(card.address, "xe", 0, {**card.files, **own}, bridges)
    roots, found = laid(tmp_path, card)
    reading = reader("xe").read(found[card.address], AT, roots)
    is_sound(reading)
    for quantity, expected in ((Quantity.LINK_WIDTH, width), (Quantity.LINK_SPEED, speed)):
        if expected is None:
            absence(reading, quantity)
        else:
            assert value(reading, quantity) == expected


def test_what_a_link_could_be_is_told_with_the_bridge_that_says_so(tmp_path: Path) -> None:
    roots, found = laid(tmp_path, b70())
    reading = reader("xe").read(found["0000:03:00.0"], AT, roots)
    assert detail(reading, "link_max") == "x16 at 32 GT/s"
    sources = {one.source for one in reading.measures if one.quantity is Quantity.LINK_WIDTH}
    assert sources == {"PCI bridge 0000:01:00.0 current_link_width"}


def test_the_link_to_a_switch_that_is_not_to_be_seen_is_not_taken_for_the_slots(tmp_path: Path) -> None:
    inner = {**INNER, "max_link_width": "1", "max_link_speed": "2.5 GT/s PCIe"}
    card = replace(b70(), bridges=(Bridge("0000:00:05.0", "0x1b36", SLOT),)).having(inner)
    roots, found = laid(tmp_path, card)
    reading = reader("xe").read(found[card.address], AT, roots)
    assert "a virtual machine?" in absence(reading, Quantity.LINK_WIDTH)
    assert "a virtual machine?" in absence(reading, Quantity.LINK_SPEED)
    assert "a virtual machine?" in detail(reading, "link_max")


def test_no_more_than_a_page_of_a_file_is_read_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    card = b70().having({"long": "x" * 100_000, "endless": Broken.ENDLESS, "pipe": Broken.PIPE})
    laid(tmp_path, card)
    folder = device(tmp_path, card)
    assert sysfs.read(str(folder / "long")) == "x" * sysfs.PAGE
    assert sysfs.read(str(folder / "endless")) == ""
    assert sysfs.read(str(folder / "pipe")) == ""


NUMBERS = ("", "-1", "-99999", "0", "+5", "1e9", "0x10", "NaN", "inf", "9" * 20, "9" * 5000, "12 34", "5\0", "٣", "1_0")


def test_every_file_of_a_card_may_hold_any_number(tmp_path: Path, driver: str) -> None:
    card = SHAPES[driver]()
    roots, found = laid(tmp_path, card)
    paths = [path for path in card.files if path not in ("class", "vendor", "device")]
    for text in NUMBERS:
        with spoilt(device(tmp_path, card), dict.fromkeys(paths, text.encode())):
            is_sound(reader(driver).read(found[card.address], AT, roots))


def garbage(card: Card) -> st.SearchStrategy[dict[str, Content]]:
    """Some of the card's files, with anything in their place."""
    numbers = st.sampled_from(NUMBERS).map(lambda text: text.encode())
    content: st.SearchStrategy[Content] = st.one_of(st.binary(max_size=60), numbers, st.sampled_from(Broken))
    paths = sorted(path for path in card.files if path not in ("class", "vendor", "device"))
    return st.dictionaries(st.sampled_from(paths), content, max_size=12)


@pytest.mark.parametrize("name", SHAPES)
def test_garbage_in_any_file_gives_a_plausible_value_or_an_absence(name: str, tmp_path: Path) -> None:
    card = SHAPES[name]()
    roots, found = laid(tmp_path, card)

    @settings(max_examples=100)
    @given(garbage(card))
    def holds(files: dict[str, Content]) -> None:
        with spoilt(device(tmp_path, card), files):
            is_sound(reader(name).read(found[card.address], AT, roots))

    holds()


def test_any_answer_of_a_driver_gives_a_plausible_value_or_an_absence(tmp_path: Path) -> None:
    roots, found = laid(tmp_path, b70(), a770("0000:43:00.0", 1))

    @settings(max_examples=200)
    @given(st.binary(max_size=400), st.integers(0, 5))
    def holds(answer: bytes, regions: int) -> None:
        said = [(VRAM, 8 * GIB, GIB)] * regions
        is_sound(XeReader(XeNode(said, spoilt=answer)).read(found["0000:03:00.0"], AT, roots))
        is_sound(I915Reader(I915Node(said, spoilt=answer)).read(found["0000:43:00.0"], AT, roots))

    holds()


def test_a_link_asks_nothing_of_a_folder_that_is_not_there() -> None:
    measures, words = link.link(sysfs.Folder("/nowhere/at/all", AT))
    assert all(isinstance(one.reading, Unknown) for one in measures)
    assert isinstance(words.reading, Unknown)


def assert_all_absent(reading: CardReading, why: str) -> None:
    unknown = Unknown(why, AT)
    assert {one.reading for one in reading.measures} == {unknown}
    assert {one.reading for one in reading.details} == {unknown}
    assert reading.throttling == unknown
