"""The table of profiles and the story of one, as words."""

from dataclasses import replace

import msgspec
import pytest

from arcops import wire
from arcops.core.difference import Change
from arcops.tui.ink import Line, Lines
from arcops.tui.panels import profiles as panel
from arcops.tui.panels.profiles import Known
from arcops.tui.profiles import ProfileChoice
from tests.tui import profile_scenes, scenes

BROKEN, DFLASH2, TARGET, NOT_HERE = profile_scenes.CHOICES
KNOWN = Known(scenes.NOW, running="dflash2", ordered="dflash2", told=profile_scenes.TOLD)


def said(line: Line) -> str:
    return "".join(text for text, _ in line)


def story(lines: Lines) -> str:
    return "\n".join(said(line) for line in lines)


@pytest.mark.parametrize("width", [20, 40, 58, 78, 100, 198])
def test_every_column_starts_where_its_title_does(width: int):
    names = panel.name_column(profile_scenes.CHOICES, width)
    header = said(panel.header(names, width))
    rows = {choice.name: said(panel.row(choice, KNOWN, names, width)) for choice in profile_scenes.CHOICES}
    assert rows["dflash2"].index("runs") == header.index("now")
    assert rows["broken"].index("invalid") == header.index("file ", 9)
    if width >= 58:
        assert rows["broken"].index("never started") == header.index("last start")
        assert {len(row) for row in rows.values()} == {max(len(header), width)}


def test_a_row_says_what_runs_how_the_file_is_and_how_the_last_start_went():
    rows = [" ".join(said(panel.row(choice, KNOWN, 34, 110)).split()) for choice in profile_scenes.CHOICES]
    assert rows == [
        "broken invalid never started unknown",
        "● dflash2 runs ok ready in 30 s, 2 h ago 31 s",
        "target-only ok failed 1 d ago: kv_cache_too_small unknown",
        "qwen35-9b-w4a16-users-mtp3-tp2 not here never started unknown",
    ]


def test_what_is_ordered_and_does_not_run_is_marked_by_a_word():
    known = replace(KNOWN, running=None, ordered="target-only")
    assert "ordered" in said(panel.row(TARGET, known, 20, 100))
    assert "runs" not in said(panel.row(DFLASH2, known, 20, 100))


def test_without_the_daemons_word_the_past_is_unknown_and_not_empty():
    known = Known(scenes.NOW, silence="no daemon answers")
    row = said(panel.row(DFLASH2, known, 20, 100))
    assert row.count("unknown") == 2
    assert "never started" not in row
    assert "differs: unknown: no daemon answers" in story(panel.details(DFLASH2, known, 78))


def test_long_names_are_shortened_in_their_middle_since_families_differ_at_the_end():
    short = panel.shortened("qwen35-9b-w4a16-users-mtp3-tp2", 16)
    assert len(short) == 16
    assert short.startswith("qwen3")
    assert short.endswith("-mtp3-tp2")
    assert panel.shortened("mtp", 16) == "mtp"


def test_the_story_names_each_difference_by_its_flag_with_both_values():
    text = story(panel.details(TARGET, KNOWN, 78))
    assert "The 35B alone. [b]No markup[/b]." in text
    assert "~ --max-model-len  262144 → 8064" in text
    assert "+ --enforce-eager  on" in text
    assert "- --speculative-config" in text
    assert "~ OMP_NUM_THREADS  8 → 16" in text
    assert "+ ZE_AFFINITY_MASK  0" in text
    assert "+ set-up script  /opt/intel/oneapi/setvars.sh" in text
    assert "differs in 6: from what runs now (dflash2)" in text
    assert "not compared: HF_TOKEN: hidden" in text
    assert "--port" not in text


def test_what_runs_as_its_file_says_differs_in_nothing():
    assert "differs in nothing: the same launch, as its file says now" in story(panel.details(DFLASH2, KNOWN, 78))


def test_a_file_that_changed_since_its_profile_was_started_is_told():
    running = msgspec.structs.replace(profile_scenes.RUNNING, argv=(*profile_scenes.ARGV, "--enforce-eager"))
    known = replace(KNOWN, told=msgspec.structs.replace(profile_scenes.TOLD, running=running))
    text = story(panel.details(DFLASH2, known, 78))
    assert "differs in 1: its file has changed since it was started" in text
    assert "- --enforce-eager" in text


def test_another_profile_that_is_the_same_launch_is_told():
    twin = replace(DFLASH2, name="twin")
    assert "differs in nothing: the same as what runs now (dflash2)" in story(panel.details(twin, KNOWN, 78))


def test_where_nothing_runs_there_is_nothing_to_compare_with():
    known = replace(KNOWN, told=wire.Profiles(past=(), running=None))
    text = story(panel.details(TARGET, known, 78))
    assert "differs: nothing runs that it could be compared with" in text
    assert "last start: never started" in text


def test_a_profile_that_cannot_be_used_says_why_and_is_compared_with_nothing():
    text = story(panel.details(BROKEN, KNOWN, 78))
    assert "invalid: profiles/broken.yaml:3: model.pth: unknown key; did you mean" in text
    assert "differs" not in text
    assert "not on this machine: qwen35-9b" in story(panel.details(NOT_HERE, KNOWN, 78))


def test_the_story_of_a_failure_has_its_cause_and_its_words():
    text = " ".join(story(panel.details(TARGET, KNOWN, 78)).split())
    assert "last start: failed 1 d 1 h ago: kv_cache_too_small, the KV cache is too small for a context" in text


@pytest.mark.parametrize("width", [8, 20, 58])
def test_values_that_are_too_long_for_a_line_are_wrapped_and_never_lost(width: int):
    lines = panel.changed(Change("--x", "a" * 30, "b" * 30), width)
    assert story(lines).replace("\n", "").replace(" ", "").count("a") >= min(30, width)
    assert lines[0] == (("~ --x", lines[0][0][1]),)


def test_a_name_with_an_escape_sequence_is_harmless():
    nasty = ProfileChoice("x\x1b[31my", "d\x1b]0;title\x07", "p\x1b[2J")
    text = story((panel.row(nasty, KNOWN, 20, 80), *panel.details(nasty, KNOWN, 78)))
    assert "\x1b" not in text


def test_a_load_that_was_over_at_once_did_not_take_zero_seconds():
    last = msgspec.structs.replace(profile_scenes.READY, seconds=0.3)
    told = wire.Profiles(past=(wire.ProfilePast(name="dflash2", usual=0.3, last=last),), running=None)
    row = said(panel.row(DFLASH2, replace(KNOWN, told=told), 20, 100))
    assert "ready in < 1 s, 2 h ago" in row
    assert row.endswith(" < 1 s")
