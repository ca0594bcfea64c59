"""The history that is kept for reading."""

import pytest

from arcops import wire
from arcops.tui.event_book import EventBook, is_problem, matches
from arcops.tui.logs.launches import launches
from tests.tui.views.happenings import NIGHT, event


def book_of(events: tuple[wire.Event, ...] = NIGHT) -> EventBook:
    book = EventBook()
    for one in events:
        book.add(one)
    return book


def ids(book: EventBook) -> list[int]:
    return [one.id for row in range(book.count) if (one := book.at(row)) is not None]


def test_the_newest_is_first_until_it_is_turned_round():
    book = book_of()
    assert ids(book) == list(range(14, 0, -1))
    book.newest_first = False
    assert ids(book) == list(range(1, 15))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", range(1, 15)),
        ("hang", (9, 10, 11, 12)),
        ("HANG backoff", (12,)),
        ("outcome", (6,)),
        ("20270115-085100-2 serving", (14,)),
        ("dflash2 suspect", (8,)),
        ("nothing of the kind", ()),
    ],
)
def test_every_word_of_the_filter_must_be_there(text: str, wanted: range | tuple[int, ...]):
    book = book_of()
    book.filter(text, problems_only=False)
    assert sorted(ids(book)) == list(wanted)
    assert all(matches(one, text) for one in NIGHT if one.id in wanted)


def test_problems_alone():
    book = book_of()
    book.filter("", problems_only=True)
    assert sorted(ids(book)) == [7, 8, 9, 10, 11, 12]


def test_an_order_to_stop_is_no_problem_and_a_wedge_is():
    assert not is_problem(event(1, 5, "phase", "stopping", "stopped as ordered"))
    assert not is_problem(event(1, 5, "outcome", "failed", "order 7: it failed"))
    assert is_problem(event(1, 5, "phase", "wedged", "the card needs a reboot"))


def test_new_events_are_shown_if_they_are_wanted_and_told_twice_they_count_once():
    book = book_of(NIGHT[:12])
    book.filter("", problems_only=True)
    for one in (*NIGHT[9:], event(15, 1, "trouble", "serving", "the disk is full")):
        book.add(one)
    assert sorted(ids(book)) == [7, 8, 9, 10, 11, 12, 15]
    assert len(book) == 15


def test_an_event_keeps_its_row_as_far_as_it_is_shown():
    book = book_of()
    assert book.row_of(8) == 6
    book.filter("", problems_only=True)
    assert book.at(book.row_of(8)) == NIGHT[7]
    assert book.at(book.row_of(2)) == NIGHT[6]
    assert book.before(NIGHT[7]) == NIGHT[6]
    assert book.before(NIGHT[0]) is None


def test_the_oldest_go():
    book = EventBook(most=20)
    for number in range(1, 101):
        book.add(event(number, 1000 - number, "phase", "serving", "serving demo"))
    assert len(book) <= 20
    assert book.last_id == 100
    assert book.count == len(book)


def test_launches_are_told_with_what_became_of_them_the_newest_first():
    failed = event(15, 400, "phase", "failed", "it failed", launch_id="20270115-085100-2", cause="bad_value")
    found = launches((*NIGHT, failed))
    assert [one.launch_id for one in found] == ["20270115-085100-2", "20270115-080000-1"]
    assert (found[0].last_phase, found[0].cause) == ("failed", "bad_value")
    assert (found[1].last_phase, found[1].cause) == ("backoff", "hang")
    assert found[1].began == NIGHT[2].at


def test_no_more_launches_than_have_logs():
    many = [event(n, 1000 - n, "phase", "starting", "launching", launch_id=f"launch-{n}") for n in range(1, 60)]
    assert len(launches(many)) == 20
    assert launches(many)[0].launch_id == "launch-59"
