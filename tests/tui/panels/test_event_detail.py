"""One event in full."""

import msgspec

from arcops import wire
from arcops.tui.panels.event_detail import hint_of, lines
from arcops.tui.panels.incident import Numbers
from tests.tui import scenes
from tests.tui.views.happenings import NIGHT, event


def told(one: wire.Event, before: wire.Event | None = None, status: wire.Status | None = None) -> str:
    shown = lines(one, before, status, Numbers(one.at), scenes.NOW, 78, 20)
    return "\n".join("".join(text for text, _ in line) for line in shown)


def test_it_says_when_why_and_how_long_after_what():
    text = told(NIGHT[8], NIGHT[7])
    assert "9 min 30 s ago" in text
    assert "why       no answer within 30 s: the backend hangs" in text
    assert "what      stopping · dflash2 · launch 20270115-080000-1" in text
    assert "since     30 s after suspect: 3 requests in flight" in text


def test_a_cause_comes_with_what_to_do_about_it():
    assert "do        `arcops events` names the folder with the evidence" in told(NIGHT[8])
    assert "do " not in told(NIGHT[4])


def test_the_very_hint_is_used_while_the_daemon_has_it():
    failure = wire.FailureInfo(cause="bad_value", summary="too small", hint="set it to 8064", evidence="")
    status = msgspec.structs.replace(scenes.busy(), failure=failure)
    mine = event(20, 5, "phase", "failed", "dflash2: too small", cause="bad_value")
    older = event(19, 500, "phase", "failed", "dflash2: another value", cause="bad_value")
    assert hint_of(mine, status) == "set it to 8064"
    assert hint_of(older, status) == "correct the value in the profile"
    assert hint_of(event(21, 5, "phase", "failed", "odd", cause="a_cause_of_tomorrow"), status) == ""


def test_the_first_event_says_that_nothing_is_known_before_it():
    assert "what came before is not known here" in told(NIGHT[0])


def test_text_from_outside_is_harmless():
    assert "serving [b]demo[/b] red" in told(NIGHT[13])
    assert "\x1b" not in told(NIGHT[13])
