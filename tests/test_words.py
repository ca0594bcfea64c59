"""Numbers and foreign text in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from arcops import wire, words
from arcops.core.phase import Phase
from arcops.core.rates import Quantile
from arcops.tui import plot
from tests.tui import scenes


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7980, "2 h 13 min"),
        (86_400 * 4 + 3 * 3600, "4 d 3 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str):
    assert words.duration(seconds) == text


def test_a_countdown_is_rounded_up():
    assert (words.countdown(0.2), words.countdown(0), words.countdown(2)) == ("1 s", "0 s", "2 s")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.001, "< 0.01"),
        (0.123, "0.12"),
        (9.999, "10.0"),
        (12.34, "12.3"),
        (99.97, "100"),
        (12345.6, "12,346"),
    ],
)
def test_a_number_keeps_three_digits(value: float, text: str):
    assert words.number(value) == text


def test_unknown_is_never_zero():
    said = (words.count(None), words.percent(None), words.tokens_per_second(None), words.unknown("no scrape"))
    assert said == ("unknown", "unknown", "unknown", "unknown: no scrape")
    assert words.tokens_per_second(0) == "0 tok/s"


@pytest.mark.parametrize(
    ("bucket", "text"),
    [
        (Quantile(0.0, 0.5, 0.2), "≤ 0.5 s"),
        (Quantile(0.25, 0.5, 0.3), "0.25–0.5 s"),
        (Quantile(0.075, 0.1, 0.08), "75–100 ms"),
        (Quantile(640, 2560, 700), "640–2,560 s"),
        (Quantile(2560, None, 2560), "> 2,560 s"),
        (Quantile(0.04, 0.046, 0.043), "≈ 43 ms"),
        (Quantile(4.5, 5.0, 4.71), "≈ 4.71 s"),
    ],
)
def test_a_quantile_claims_no_more_than_its_bucket_tells(bucket: Quantile, text: str):
    assert words.quantile(bucket) == text


def test_latencies_have_units_that_fit():
    assert [words.latency(value) for value in (0.0001, 0.0123, 0.31, 12.44, 2560)] == [
        "< 1 ms",
        "12.3 ms",
        "0.31 s",
        "12.4 s",
        "2,560 s",
    ]


def test_the_window_is_named_in_minutes():
    assert [words.window(value) for value in (60, 300, 3600, 90)] == [
        "last 1 min",
        "last 5 min",
        "last 60 min",
        "last 90 s",
    ]


def test_foreign_text_loses_its_escape_sequences_and_control_characters():
    assert words.clean("\x1b[31mred\x1b[0m \x1b]0;title\x07plain\x07 \u202eback\tx\x9b2J") == "red plain� �back    x"
    assert words.clean("50 %\r75 %\r100 %\r") == "100 %"
    assert words.clean("\x1b[31") == ""


@given(st.text())
def test_any_text_becomes_one_printable_line(text: str):
    cleaned = words.clean(text)
    assert cleaned.isprintable()
    assert len(cleaned) <= words.MAX_LINE


@given(st.text(alphabet="\x1b[];:0123456789mABC \x07\\\r", max_size=200))
def test_no_escape_character_survives(text: str):
    assert "\x1b" not in words.clean(text)


def test_a_huge_line_is_cut_and_says_so_and_is_not_cut_again():
    cut = words.clean("x" * 1_000_000)
    assert len(cut) == words.MAX_LINE
    assert cut.endswith("x…")
    assert words.clean(cut) == cut
    whole = "x" * words.MAX_LINE
    assert words.clean(whole) == whole


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("(EngineCore pid=4311) INFO 01-15 08:00:09 [core.py:93] Initializing", "08:00:09 Initializing"),
        ("(EngineCore pid=4311) INFO 01-15 08:00:09 [core.py:93]", "08:00:09"),
        ("WARNING 01-15 08:00:10 [gpu.py:77] careful", "08:00:10 WARNING careful"),
        ("(EngineCore pid=4311) Loading safetensors: 50% Completed", "Loading safetensors: 50% Completed"),
        ('(APIServer pid=9) INFO:     127.0.0.1:4 - "GET /metrics HTTP/1.1" 200 OK',
         '127.0.0.1:4 - "GET /metrics HTTP/1.1" 200 OK'),
        ("(APIServer pid=9) ERROR:    Exception in ASGI application", "ERROR:    Exception in ASGI application"),
        ("INFO: what somebody prints", "INFO: what somebody prints"),
        ("(APIServer pid=9) ", "(APIServer pid=9) "),
        ("(a remark) of somebody", "(a remark) of somebody"),
    ],
)  # fmt: skip
def test_what_stands_at_the_head_of_each_line_is_cut_down_to_time_and_level(line: str, short: str):
    assert words.short_log_line(line) == short


def test_text_is_wrapped_to_a_number_of_lines_and_says_if_there_was_more():
    assert words.wrapped("one two\nthree target-only", 12, most=3) == ("one two", "three", "target-only")
    assert words.wrapped("one two three four five six", 10, most=2) == ("one two", "three …")


def test_wide_characters_are_wrapped_by_the_cells_that_they_take():
    assert words.wrapped("漢字漢字 漢字漢字 abcd", 9, most=3) == ("漢字漢字", "漢字漢字", "abcd")
    assert words.folded("漢字漢字漢字", 5, indent="  ") == ["漢字", "  漢", "  字", "  漢", "  字"]


@given(st.text(st.sampled_from("ab é漢🚀界 "), max_size=60), st.integers(8, 40))
def test_no_wrapped_line_takes_more_cells_than_there_are(text: str, width: int):
    lines = words.wrapped(text, width, most=50)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_little_memory_is_not_read_as_none():
    assert [words.mebibytes(size) for size in (0, 1, 1024 * 1024, 28_421_652_480)] == [
        "0 MiB",
        "< 1 MiB",
        "1 MiB",
        "27,105 MiB",
    ]


def test_a_bar_fills_by_eighths_and_keeps_its_width():
    assert plot.bar(0.5, 5) == ("██▌", "░░")
    assert plot.bar(0.0, 3) == ("", "░░░")
    assert plot.bar(7.0, 3) == ("███", "")


def test_a_plot_tells_zero_from_unknown_and_from_little():
    assert plot.plot((None, 0.0, 0.1, 50.0, 100.0), 100.0, 1) == (" ▁▂▄█",)
    assert plot.plot((0.0, 100.0), 100.0, 2) == (" █", "▁█")
    assert plot.plot((0.0, None), 0.0, 1) == ("▁ ",)


def test_the_sentence_names_what_runs_or_is_ordered():
    order = wire.OrderInfo(id=8, goal="run", profile="mtp", committed=False)
    assert words.sentence(scenes.status()) == "serving dflash2 for 2 h 13 min: serving demo"
    waiting = scenes.status(Phase.BLOCKED, backend=None, order=order, reason="a\x1b[2J\nb")
    assert words.sentence(waiting) == "blocked mtp for 2 h 13 min: a b"
    assert words.sentence(scenes.status(Phase.STOPPED, backend=None, order=order)).startswith("stopped for ")
    instead = wire.OrderInfo(id=8, goal="run", profile="mtp", committed=True, standing_in="target-only")
    assert words.sentence(scenes.status(Phase.BACKOFF, backend=None, order=instead)).startswith("backoff target-only ")
    assert words.sentence(scenes.status(), now=scenes.NOW + 60).startswith("serving dflash2 for 2 h 14 min: ")
