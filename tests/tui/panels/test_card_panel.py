"""What is known of the card."""

from dataclasses import replace

import msgspec

from arcops import wire
from arcops.core.phase import Phase
from arcops.tui.panels.card import SECTIONS, CardFacts, cards, is_about_card, lines
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import scenes
from tests.tui.views.happenings import FINDINGS, NIGHT, event
from tests.tui.views.stage import snapshot_of

LOCK = "/sys/bus/pci/devices/0000:03:00.0"


def serving(**changes: object) -> wire.Status:
    return msgspec.structs.replace(scenes.busy(), locks=(LOCK,), **changes)


def facts_of(snapshot: Snapshot | None = None, **changes: object) -> CardFacts:
    made = CardFacts(snapshot or snapshot_of(serving()), FINDINGS, "looked 3 s ago", "", (), "")
    return replace(made, **changes)


def text_of(facts: CardFacts, width: int = 78) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines(facts, width))


def test_the_lock_is_told_with_its_card_and_its_holder():
    text = text_of(facts_of())
    assert f"locks     card 0000:03:00.0  {LOCK}" in text
    assert f"held by   arcopsd (pid 1201) for launch {scenes.LAUNCH}" in text
    assert "dflash2: pid 4242, processes 3" in text


def test_two_cards_and_a_lock_that_is_a_file():
    assert cards((LOCK, "/sys/bus/pci/devices/0000:04:00.0")) == ("0000:03:00.0", "0000:04:00.0")
    assert cards(("/run/user/1000/arcops/cpu.lock",)) == ()
    text = text_of(facts_of(snapshot_of(msgspec.structs.replace(scenes.busy(), locks=("/run/user/1000/cpu.lock",)))))
    assert "no card, a file  /run/user/1000/cpu.lock" in text


def test_what_is_unknown_of_the_backend_is_not_told_as_nought():
    bare = serving(backend=scenes.backend(pid=None, processes=None))
    assert "pid unknown, processes unknown" in text_of(facts_of(snapshot_of(bare)))


def test_whoever_blocks_is_named():
    text = text_of(facts_of(snapshot_of(scenes.blocked())))
    assert "none is held while it is blocked" in text
    assert "blocked   pid 5150 (python3 train.py" in text


def test_memory_that_nobody_reads_is_said_once():
    assert text_of(facts_of()).count("memory is not read yet: no reader for this card") == 1


def test_no_section_is_empty():
    for section in SECTIONS:
        assert len(section(facts_of(), 78)) >= 2, section


def test_what_the_daemon_said_long_ago_is_not_told_as_live():
    silent = snapshot_of(serving(), silent=14.0)
    assert "as the daemon said 14 s ago" in text_of(facts_of(silent))
    gone = replace(snapshot_of(), status=None, link=Link.BROKEN, problem="no daemon answers on main.sock")
    text = text_of(facts_of(gone))
    assert "no word from the daemon: no daemon answers on main.sock" in text
    assert "card 0000:03:00.0 (Arc Pro B70) has the driver xe" in text


def test_the_doctor_tells_the_worst_first():
    text = text_of(facts_of())
    assert text.index("✖ problem") < text.index("! warning") < text.index("? unknown") < text.index("✓ ok")


def test_resets_and_losses_are_told_the_newest_first():
    lost = [
        event(20 + n, 100 - n, "phase", "stopping", f"the driver lost the device, time {n}", cause="device_lost")
        for n in range(8)
    ]
    assert all(is_about_card(one) for one in lost)
    text = text_of(facts_of(events=lost))
    assert text.index("time 7") < text.index("time 3")
    assert "time 2" not in text
    assert "and 3 before them" in text


def test_only_what_is_about_the_card_counts():
    assert [one.id for one in NIGHT if is_about_card(one)] == []
    assert is_about_card(event(30, 1, "phase", Phase.WEDGED.value, "the card needs a reboot"))
    assert is_about_card(event(31, 1, "kernel", "serving", "xe 0000:03:00.0: GT0: Engine reset"))
    assert not is_about_card(event(32, 1, "outcome", "wedged", "order 9: stopped"))
