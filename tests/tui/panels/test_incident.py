"""The numbers around a moment."""

from arcops import wire
from arcops.tui.ink import Lines, length
from arcops.tui.panels.incident import AROUND, Numbers, columns_of, lines
from tests.tui.views.happenings import HANG, numbers, point, spread


def text_of(shown: Lines) -> list[str]:
    return ["".join(text for text, _ in line) for line in shown]


def row(shown: Lines, label: str) -> str:
    return next(text for text in text_of(shown) if text.startswith(label))


def test_before_and_after_are_told_as_means_with_their_units():
    shown = lines(Numbers(HANG, numbers()), 78)
    assert row(shown, "waiting").endswith("0 → 2.61")
    assert row(shown, "KV cache").endswith("62.4 % → 62.4 %")
    assert row(shown, "decode").endswith("tok/s → 0 tok/s")


def test_what_nobody_read_is_a_gap_and_never_zero():
    values = columns_of(HANG, numbers(), 40, 3, lambda one: one.decode)
    assert values[20] == 0.0
    assert values[30] == 0.0
    assert values[31:] == (None,) * 9
    bare = wire.Samples(step=1.0, points=(point(HANG - 5, -5.0, running=None),), next=None)
    assert row(lines(Numbers(HANG, bare), 78), "running").endswith("unknown → unknown")


def test_a_second_is_told_at_its_end_and_a_minute_from_its_beginning():
    at = 1000.0
    second = wire.Samples(step=1.0, points=(point(at + 0.5, 0.5, decode=7.0),), next=None)
    assert [n for n, value in enumerate(columns_of(at, second, 120, 1, lambda one: one.decode)) if value] == [60]
    minute = wire.Samples(step=60.0, points=(point(at - 90.0, 0.0, decode=7.0),), next=None)
    found = columns_of(at, minute, 120, 1, lambda one: one.decode)
    assert [n for n, value in enumerate(found) if value] == list(range(30))


def test_a_prefill_that_goes_on_is_told_by_the_kv_cache():
    live = wire.Samples(step=1.0, points=(point(HANG - 5, -5.0, prefill=0.0, prefilling=spread(2345.6)),), next=None)
    assert "2,346 tok/s →" in row(lines(Numbers(HANG, live), 78), "prefill")


def test_without_samples_it_says_why():
    empty = wire.Samples(step=1.0, points=(), next=None)
    assert "unknown: no server was read within a minute of it" in text_of(lines(Numbers(HANG, empty), 78))
    lost = wire.Samples(step=1.0, points=(), next=None, absent="the disk cannot be read")
    assert "unknown: the disk cannot be read" in text_of(lines(Numbers(HANG, lost), 78))
    assert "unknown: no daemon answers" in text_of(lines(Numbers(HANG, problem="no daemon answers"), 78))
    assert "reading…" in text_of(lines(Numbers(HANG), 78))


def test_it_fits_into_every_width_and_uses_the_height():
    for width in (56, 78, 158):
        shown = lines(Numbers(HANG, numbers()), width)
        assert all(length(line) <= width for line in shown), width
    low, high = (lines(Numbers(HANG, numbers()), 78, height) for height in (6, 30))
    assert len(high) > len(low) == 7


def test_minutes_are_named_as_such():
    assert "means of a minute" in text_of(lines(Numbers(HANG, numbers(60.0)), 78))[0]
    assert AROUND == 60.0
