"""Uevents, dumps and NVML's words: taken apart, and what they mean for a card."""

import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.cards.incidents import Kind, Source
from arcops.core.cards.measures import CardReading, Detail
from arcops.core.diagnosis.notices import (
    RECOVERY_ACTION,
    dump_of,
    of_dump,
    of_uevent,
    of_wanted,
    parse_uevent,
    wanted_of,
)
from arcops.core.quantity import Known, Unknown
from arcops.machine.gpu import nvml_measures
from arcops.machine.gpu.nvml_measures import RECOVERY

CARD = "0000:03:00.0"
PATH = f"/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/{CARD}"
SAMPLE = Path(__file__).parents[1] / "data" / "kmsg" / "udev_wedged_event.txt"


def message(action: str, path: str, **words: str) -> bytes:
    """As the kernel sends it."""
    pairs = {"ACTION": action, "DEVPATH": path, **words}
    return b"\0".join([f"{action}@{path}".encode(), *(f"{key}={value}".encode() for key, value in pairs.items()), b""])


def test_the_recorded_event_is_a_wedge_of_its_card() -> None:
    """udevadm has printed it a line a word."""
    words = dict(line.split("=", 1) for line in SAMPLE.read_text().splitlines() if "=" in line)
    event = parse_uevent(message(words.pop("ACTION"), words.pop("DEVPATH"), **words))
    assert event is not None
    incident = of_uevent(event, 7.0)
    assert incident is not None
    assert (incident.card, incident.kind, incident.source, incident.at) == (CARD, Kind.WEDGED, Source.UEVENT, 7.0)
    assert "WEDGED=rebind,bus-reset" in incident.text


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (message("change", f"{PATH}/drm/card0", SUBSYSTEM="drm", WEDGED="rebind"), Kind.WEDGED),
        (message("change", f"{PATH}/drm/card0", SUBSYSTEM="drm", WEDGED="unknown"), Kind.WEDGED),
        (message("change", f"{PATH}/drm/card0", SUBSYSTEM="drm", WEDGED="none"), Kind.RESET),
        (message("change", f"{PATH}/drm/card0", SUBSYSTEM="drm", HOTPLUG="1"), None),
        (message("change", "/devices/virtual/drm/card9", SUBSYSTEM="drm", WEDGED="rebind"), None),
        (message("remove", PATH, SUBSYSTEM="pci", PCI_CLASS="30000"), Kind.GONE),
        (message("unbind", PATH, SUBSYSTEM="pci", PCI_CLASS="30000"), Kind.GONE),
        (message("bind", PATH, SUBSYSTEM="pci", PCI_CLASS="30200", DRIVER="nvidia"), Kind.RECOVERY),
        (message("change", PATH, SUBSYSTEM="pci", PCI_CLASS="30000"), None),
        (message("remove", PATH, SUBSYSTEM="pci", PCI_CLASS="20000"), None),
        (message("remove", PATH, SUBSYSTEM="pci"), None),
        (message("remove", PATH, SUBSYSTEM="pci", PCI_CLASS="junk"), None),
        (message("remove", f"{PATH}/drm/card0", SUBSYSTEM="drm"), None),
        (message("remove", f"{PATH}/usb1", SUBSYSTEM="pci", PCI_CLASS="30000"), None),
        (message("add", "/devices/virtual/net/lo", SUBSYSTEM="net"), None),
    ],
)
def test_what_a_uevent_means(raw: bytes, kind: Kind | None) -> None:
    event = parse_uevent(raw)
    assert event is not None
    incident = of_uevent(event, 1.0)
    assert (None if incident is None else incident.kind) == kind
    assert incident is None or incident.card == CARD
    assert incident is None or incident.reset == (kind is Kind.RESET)


def test_a_wedge_names_the_process_where_the_kernel_does() -> None:
    raw = message("change", f"{PATH}/drm/card0", SUBSYSTEM="drm", WEDGED="rebind", PID="2693", TASK="VLLM::EngineCor")
    event = parse_uevent(raw)
    assert event is not None
    incident = of_uevent(event, 1.0)
    assert incident is not None
    assert (incident.pid, incident.command) == (2693, "VLLM::EngineCor")


@pytest.mark.parametrize(
    "raw", [b"", b"\0", b"libudev\0\xfe\xed\xca\xfe", b"change@", b"change@relative\0A=b", b"@/devices\0", b"no at\0"]
)
def test_what_is_no_uevent_is_none(raw: bytes) -> None:
    assert parse_uevent(raw) is None


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (message("add", "/devices/virtual/devcoredump/devcd7", SUBSYSTEM="devcoredump"), "devcd7"),
        (message("remove", "/devices/virtual/devcoredump/devcd7", SUBSYSTEM="devcoredump"), None),
        (message("add", "/devices/virtual/devcoredump/..", SUBSYSTEM="devcoredump"), None),
        (message("add", "/devices/virtual/devcoredump/devcd7", SUBSYSTEM="net"), None),
    ],
)
def test_a_dump_that_was_added_is_named(raw: bytes, name: str | None) -> None:
    event = parse_uevent(raw)
    assert event is not None
    assert dump_of(event) == name


def test_a_dump_is_an_incident_of_its_card_and_no_reset() -> None:
    incident = of_dump(CARD, "devcd7", 3.0, past=True)
    assert (incident.card, incident.kind, incident.reset, incident.past) == (CARD, Kind.COREDUMP, False, True)
    assert "/sys/class/devcoredump/devcd7" in incident.text


@pytest.mark.parametrize(
    ("before", "wanted", "kind"),
    [
        (None, "none", None),
        (None, "reset of the card", Kind.WEDGED),
        ("none", "reboot", Kind.WEDGED),
        ("none", "drain", None),
        ("drain", "none", None),
        ("reset of the card", "reset of the card", None),
        ("reset of the card", "none", Kind.RECOVERY),
        ("none", "action 99", Kind.WEDGED),
    ],
)
def test_what_nvidias_driver_wants_done_is_a_word_where_it_changes(
    before: str | None, wanted: str, kind: Kind | None
) -> None:
    incident = of_wanted(CARD, before, wanted, 1.0)
    assert (None if incident is None else incident.kind) == kind
    assert incident is None or (incident.card, incident.source) == (CARD, Source.NVML)


@pytest.mark.parametrize(
    ("details", "wanted"),
    [
        ((), None),
        ((Detail(RECOVERY_ACTION, Known("reboot", 1.0), "NVML"),), "reboot"),
        ((Detail(RECOVERY_ACTION, Unknown("not in this driver", 1.0), "NVML"),), None),
        ((Detail("driver", Known("580", 1.0), "NVML"),), None),
    ],
)
def test_what_is_wanted_stands_in_a_reading(details: tuple[Detail, ...], wanted: str | None) -> None:
    assert wanted_of(CardReading(CARD, 1.0, details=details)) == wanted


def test_the_reader_of_nvidias_cards_has_these_words() -> None:
    """It is another part that says them; were they to differ, a card that waits for a reset would look well."""
    assert RECOVERY[0] == "none"
    assert RECOVERY[3] == "drain"
    assert len(set(RECOVERY.values())) == len(RECOVERY)
    assert RECOVERY_ACTION in inspect.getsource(nvml_measures)


@given(st.one_of(st.binary(max_size=300), st.binary(max_size=80).map(lambda raw: b"change@/devices/" + raw)))
def test_no_message_breaks_it(raw: bytes) -> None:
    event = parse_uevent(raw)
    if event is not None:
        dump_of(event)
        incident = of_uevent(event, 1.0)
        assert incident is None or incident.text.isprintable()


@given(st.dictionaries(st.sampled_from(["SUBSYSTEM", "WEDGED", "PID", "TASK", "PCI_CLASS", "DRIVER"]), st.text()))
def test_no_words_break_it(words: dict[str, str]) -> None:
    for action in ("change", "remove", "bind"):
        event = parse_uevent(message(action, f"{PATH}/drm/card0" if "WEDGED" in words else PATH, **words))
        assert event is not None
        incident = of_uevent(event, 1.0)
        assert incident is None or (incident.text + (incident.command or "") + incident.driver).isprintable()
