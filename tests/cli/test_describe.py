"""A status in words: what is unknown is said so, what is foreign is harmless, what is old is called old."""

from dataclasses import replace

import msgspec
import pytest

from arcops import wire
from arcops.cli.describe import glance, loading, status_lines
from arcops.cli.events import line
from arcops.cli.status import exit_code
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase
from arcops.core.rates import Rates
from arcops.words import sentence
from tests.tui import scenes

HOSTILE = "a\x1b[2Jb\x07c\r\nd\u202ee"


def text(status: wire.Status) -> str:
    return "\n".join(status_lines(status))


def changed(status: wire.Status, **fields: object) -> wire.Status:
    return msgspec.structs.replace(status, **fields)


@pytest.mark.parametrize("scene", scenes.SCENES)
def test_every_scene_is_one_sentence_and_rows_under_it(scene: str) -> None:
    status = scenes.SCENES[scene]()
    first, *rest = status_lines(status)
    assert first == sentence(status)
    assert first.startswith(status.phase)
    assert status.reason in first
    assert all(row.startswith("  ") and row.isprintable() for row in rest)
    assert "None" not in text(status)


def test_what_serves_is_named_with_its_numbers() -> None:
    said = text(scenes.speculating())
    assert said.startswith("serving dflash2 for 2 h 13 min: serving demo\n")
    for row in (
        "backend      http://127.0.0.1:8000 serves demo",
        "requests     3 running, 12 waiting; KV cache 62.4 % used",
        "rates        prefill 1,234 tok/s, decode 412 tok/s (last 1 min)",
        "speculation  71.2 % accepted, 3.14 tokens per step",
        "TTFT         p50 0.25–0.5 s, p90 0.5–0.75 s, p99 > 2,560 s",
    ):
        assert row in said, said


def test_a_long_prefill_has_its_own_row() -> None:
    said = text(changed(scenes.prefilling(), at=scenes.MONOTONIC))
    assert "prefilling   2,346 tok/s by the KV cache's growth, 28,160 tokens so far, for 12 s" in said


def test_numbers_that_are_not_there_are_unknown_and_never_0() -> None:
    said = text(scenes.status(rates=Rates(absent="the server did not answer within 2 s")))
    assert "requests     unknown: the server did not answer within 2 s" in said
    bare = text(scenes.status(rates=replace(Rates(), at=1.0), rates_age=0.1))
    assert "unknown running, unknown waiting; KV cache unknown used" in bare
    assert "prefill unknown, decode unknown" in bare
    assert "TTFT" not in bare


def test_old_numbers_are_called_old() -> None:
    assert "(9 s old)" in text(changed(scenes.busy(), rates_age=9.4))
    assert "old" not in text(scenes.busy())


def test_a_start_says_how_far_it_is() -> None:
    start = scenes.starting().start
    assert start is not None
    assert loading(start) == "weights 62 % (12 s, usually 31 s)"
    assert loading(msgspec.structs.replace(start, fraction=None, usual=None)) == "weights (12 s)"
    said = text(scenes.starting())
    assert "order        run dflash2, under way; returns to target-only if it fails" in said


def test_a_failure_has_its_cause_and_hint_and_the_next_attempt() -> None:
    said = text(changed(scenes.failed(), phase="backoff", retry_at=scenes.NOW + 4.2))
    assert "failure      the KV cache is too small for a context of 262,144 tokens (kv_cache_too_small)" in said
    assert "hint         set scheduling.max_model_len to 8064 or less" in said
    assert "next attempt in 5 s" in said


def test_a_stop_that_is_under_way_is_told_and_one_that_is_done_is_not() -> None:
    order = wire.OrderInfo(id=8, goal="stop", profile=None, committed=False)
    assert "order        stop" in text(changed(scenes.busy(), phase="draining", order=order))
    assert "  order" not in text(scenes.stopped())


def test_what_stands_in_is_told_beside_what_was_ordered() -> None:
    order = wire.OrderInfo(id=8, goal="run", profile="dflash2", committed=True, standing_in="target-only")
    assert "order        run dflash2; target-only stands in for it" in text(changed(scenes.busy(), order=order))
    assert "  order" not in text(scenes.busy())


def test_trouble_locks_and_lingering_are_told() -> None:
    said = text(changed(scenes.stopped(), trouble=("one", "two"), lingering=False, locks=("/run/cpu.lock",)))
    assert [row in said for row in ("trouble      one", "trouble      two", "locks        /run/cpu.lock")] == [True] * 3
    assert "lingering is off" in said
    assert "lingering" not in text(changed(scenes.stopped(), lingering=None))


def test_whether_it_survives_is_one_row_in_the_daemons_own_words() -> None:
    survival = wire.SurvivalInfo(logout=True, reboot=False, why="lingering is on, and so on")
    said = text(changed(scenes.stopped(), survival=survival, lingering=False))
    assert "boot         lingering is on, and so on" in said
    assert "lingering is off" not in said


def test_what_cannot_be_seen_is_a_note_and_what_was_not_counted_is_not_zero() -> None:
    said = text(scenes.status(backend=scenes.backend(processes=None), notes=("3 processes of other users", HOSTILE)))
    assert "note         3 processes of other users" in said
    assert "unknown processes (nobody has looked yet), launch" in said
    assert all(row.isprintable() for row in said.splitlines())


def test_an_adopted_backend_without_a_pid_yet_is_said_so() -> None:
    said = text(scenes.status(backend=scenes.backend(pid=None, adopted=True, processes=0)))
    assert f"pid not known yet, 0 processes, launch {scenes.LAUNCH}, adopted" in said


def test_foreign_text_cannot_move_the_cursor() -> None:
    failure = wire.FailureInfo(cause="c", summary=HOSTILE, hint=HOSTILE, evidence=HOSTILE)
    status = changed(scenes.suspect(), reason=HOSTILE, failure=failure, trouble=(HOSTILE,))
    assert all(row.isprintable() for row in status_lines(status))


def test_a_clock_that_was_set_back_gives_no_negative_time() -> None:
    assert " for 0 s: " in sentence(changed(scenes.busy(), since=scenes.NOW + 100))


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_has_its_exit_code(phase: Phase) -> None:
    special = {Phase.SERVING: ExitCode.DONE, Phase.SUSPECT: ExitCode.DONE, Phase.WEDGED: ExitCode.WEDGED}
    assert exit_code(phase.value) is special.get(phase, ExitCode.NOT_RUNNING)


def event(**fields: object) -> wire.Event:
    made = wire.Event(
        id=1, at=scenes.NOW, kind="phase", phase="serving", profile="dflash2", launch_id=None, reason="serving demo"
    )
    return msgspec.structs.replace(made, **fields)


def test_an_event_is_one_line_in_columns() -> None:
    assert line(event()).endswith("  serving   dflash2               serving demo")
    assert line(event(kind="order", profile=None, reason="order 3: stop")).split()[2:4] == ["order", "-"]


def test_a_long_profile_name_keeps_its_distance() -> None:
    assert "-mtp-scheduled  serving demo" in line(event(profile="qwen35-9b-w4a16-classpad-mtp-scheduled"))


def test_an_events_reason_stays_on_its_line() -> None:
    assert line(event(reason=HOSTILE)).isprintable()


def seen(**changes: object) -> wire.CardGlance:
    """A card that serves."""
    card = wire.CardGlance(
        address="0000:03:00.0", name="Intel Arc Pro B70", at=scenes.NOW, memory_used=17.0 * 2**30,
        memory_total=32.0 * 2**30, power=183.4, temperature=61.0, clock=2400.0, busy=0.97, throttling=(), resets=0,
        absent={},
    )  # fmt: skip
    return msgspec.structs.replace(card, **changes)


def test_a_card_is_a_line_of_the_status() -> None:
    said = text(scenes.status(cards=(seen(), seen(address="0000:04:00.0", name=None))))
    assert (
        "card         0000:03:00.0 (Intel Arc Pro B70): 17.0 of 32.0 GiB, 183 W, 61 °C, 2,400 MHz, 97.0 % busy" in said
    )
    assert "card         0000:04:00.0: 17.0" in said


def test_a_card_that_is_not_well_says_so_and_one_that_cannot_be_read_why() -> None:
    assert glance(seen(throttling=("thermal", "pl1"), resets=1)).endswith(
        "97.0 % busy, held down by thermal, pl1, 1 reset since boot"
    )
    unread = seen(
        memory_used=None, memory_total=None, power=None, temperature=None, clock=None, busy=None, throttling=None,
        resets=None, name=HOSTILE, absent={"memory_used": "its driver has not come back for 12 s"},
    )  # fmt: skip
    said = glance(unread)
    assert said.isprintable()
    assert said.endswith(": memory in use unknown: its driver has not come back for 12 s")
    assert " 0 " not in said


def test_how_the_environment_stands_is_one_row_once_it_is_known() -> None:
    here, there = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
    unknown = wire.EnvironmentInfo(launch_id="one", digest=None, qualified=None)
    assert "environment" not in text(changed(scenes.speculating(), environment=unknown))
    info = msgspec.structs.replace(unknown, digest=here, qualified=False, qualified_in=there, changes=2)
    info = msgspec.structs.replace(info, since_qualified=("system kernel: 6.17 -> 6.18", f"variable A: {HOSTILE}"))
    said = text(changed(scenes.speculating(), environment=info))
    row = next(line for line in said.splitlines() if line.startswith("  environment"))
    assert row.startswith(
        "  environment  since it last qualified, 2 things have changed: system kernel: 6.17 -> 6.18; "
    )
    assert row.isprintable()
    lost = msgspec.structs.replace(unknown, unread=("the environment could not be recorded: the reader hangs",))
    assert "environment  the environment could not be recorded" in text(changed(scenes.status(), environment=lost))


def test_a_launch_with_fresh_caches_is_told_apart() -> None:
    status = scenes.speculating()
    assert status.backend is not None
    assert "fresh caches" not in text(status)
    fresh = msgspec.structs.replace(status.backend, fresh_caches=True)
    assert "fresh caches" in text(changed(status, backend=fresh))
