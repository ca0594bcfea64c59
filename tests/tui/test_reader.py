"""Where in a log somebody reads."""

import pytest
from rich.cells import cell_len

from arcops.tui.ink import Ink
from arcops.tui.logs.book import Level, Logbook
from arcops.tui.logs.reader import GUTTER, Reader

WIDTH, HEIGHT = 40, 5


def reader_of(count: int, *, wrap: bool = False) -> Reader:
    book = Logbook()
    book.add([f"line {number}" for number in range(count)])
    reader = Reader(book)
    reader.wrap = wrap
    return reader


def seen(reader: Reader, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    return [row.text for row in reader.rows(width, height)]


def test_it_follows_the_end():
    reader = reader_of(10)
    assert seen(reader) == ["line 5", "line 6", "line 7", "line 8", "line 9"]
    reader.book.add(["line 10"])
    assert seen(reader)[-1] == "line 10"


def test_up_stands_still_and_counts_what_comes():
    reader = reader_of(10)
    reader.move(-1, WIDTH, HEIGHT)
    assert not reader.following
    assert seen(reader) == ["line 4", "line 5", "line 6", "line 7", "line 8"]
    reader.book.add(["line 10", "line 11"])
    assert seen(reader)[0] == "line 4"
    assert reader.new_lines == 2
    reader.follow()
    assert seen(reader)[-1] == "line 11"
    assert reader.new_lines == 0


def test_down_to_the_end_follows_again():
    reader = reader_of(10)
    reader.move(-2, WIDTH, HEIGHT)
    reader.move(1, WIDTH, HEIGHT)
    assert not reader.following
    reader.move(1, WIDTH, HEIGHT)
    assert reader.following


def test_up_at_the_top_of_a_short_log_goes_on_following():
    reader = reader_of(3)
    reader.move(-1, WIDTH, HEIGHT)
    assert reader.following


def test_the_start_and_no_further():
    reader = reader_of(10)
    reader.to_start()
    reader.move(-3, WIDTH, HEIGHT)
    assert seen(reader) == [f"line {number}" for number in range(5)]


def test_a_place_that_is_dropped_becomes_the_oldest_line_that_is_kept():
    book = Logbook(most=100)
    book.add([f"line {number}" for number in range(90)])
    reader = Reader(book)
    reader.to_start()
    book.add([f"line {number}" for number in range(90, 200)])
    assert seen(reader)[0] == book[book.shown[0]].text


def test_a_filter_keeps_the_place_or_the_next_one():
    book = Logbook()
    book.add([f"{'ERROR' if n % 4 == 0 else 'INFO'} 11-30 09:36:07 [a.py:1] {n}" for n in range(40)])
    reader = Reader(book)
    reader.go_to(10, WIDTH, HEIGHT)
    assert seen(reader)[1].endswith(" 10")
    book.filter(Level.ERROR)
    assert seen(reader)[0].endswith(" 12")
    reader.to_start()
    book.filter(Level.ALL)
    assert seen(reader)[0].endswith(" 0")


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_wrapped_rows_are_all_seen_whatever_the_steps(steps: int):
    book = Logbook()
    book.add([f"{number} " + "word " * number for number in range(20)])
    reader = Reader(book)
    reader.wrap = True
    everything = [row.text for row in reader.rows(20, 10_000)]
    reader.to_start()
    found = seen(reader, 20)
    for _ in range(1000):
        before = reader.rows(20, HEIGHT)
        reader.move(steps, 20, HEIGHT)
        if reader.following:
            break
        after = reader.rows(20, HEIGHT)
        assert [row.text for row in after[: HEIGHT - steps]] == [row.text for row in before[steps:]]
        found += [row.text for row in after[-steps:]]
    assert reader.following
    assert everything[: len(found)] == found
    assert len(everything) - len(found) <= steps


def test_wrapped_rows_leave_nothing_out():
    book = Logbook()
    text = "x" * 30 + "  two blanks and 漢字漢字漢字漢字漢字漢字 and " + "y" * 50
    book.add([text])
    reader = Reader(book)
    reader.wrap = True
    rows = reader.rows(24, 100)
    assert "".join(row.text.replace(" ", "") for row in rows) == text.replace(" ", "")
    assert all(cell_len(row.text) <= 24 - GUTTER for row in rows)


def test_search_goes_up_from_the_end_and_marks_without_colour():
    reader = reader_of(30)
    reader.book.search("line 1")
    reader.find(WIDTH, HEIGHT, forward=False)
    assert reader.current == 19
    reader.find(WIDTH, HEIGHT, forward=False)
    assert reader.current == 18
    drawn = [reader.ink(row, WIDTH) for row in reader.rows(WIDTH, HEIGHT)]
    marks = {"".join(text for text, _ in line[2:]): line[1][0] for line in drawn}
    assert marks["line 18"] == "»"
    assert marks["line 19"] == "›"
    assert ("line 1", Ink.MARK) in next(line for line in drawn if line[1][0] == "»")


def test_a_match_beyond_the_right_edge_is_moved_into_sight():
    book = Logbook()
    book.add(["x" * 100 + " needle"])
    reader = Reader(book)
    book.search("needle")
    reader.find(WIDTH, HEIGHT, forward=False)
    (row,) = reader.rows(WIDTH, HEIGHT)
    shown = "".join(text for text, _ in reader.ink(row, WIDTH))[:WIDTH]
    assert "needle" in shown


def test_levels_are_marked_by_a_letter():
    book = Logbook()
    book.add(["ERROR 11-30 09:36:07 [a.py:1] bad", "WARNING 11-30 09:36:07 [a.py:1] odd", "fine"])
    reader = Reader(book)
    letters = [reader.ink(row, WIDTH)[0][0] for row in reader.rows(WIDTH, HEIGHT)]
    assert letters == ["E", "W", " "]


def test_an_empty_log_has_no_rows_and_moves_nowhere():
    reader = Reader(Logbook())
    for rows in (-3, 3):
        reader.move(rows, WIDTH, HEIGHT)
    reader.to_start()
    reader.find(WIDTH, HEIGHT, forward=True)
    assert reader.rows(WIDTH, HEIGHT) == []
    assert reader.following
