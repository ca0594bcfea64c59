"""The numbers' past on the disk: whole batches or none, bounded, and begun anew where it cannot be used."""

import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import pytest

from arcops.machine.database import StoreError
from arcops.machine.sample_store import (
    MOST_MARKS,
    MOST_MINUTES,
    MOST_SECONDS,
    Batch,
    Minute,
    Recalled,
    SampleStore,
    Second,
)

BODY = b"x" * 300
"""As long as a minute really is, about."""


@contextmanager
def opened(path: Path) -> Generator[SampleStore]:
    store = SampleStore.open(str(path))
    try:
        yield store
    finally:
        store.close()


def seconds(first: int, count: int) -> list[Second]:
    return [Second(float(at), b"%d" % at) for at in range(first, first + count)]


def minutes(first: int, count: int, body: bytes = BODY) -> list[Minute]:
    return [Minute(60.0 * number, number, body) for number in range(first, first + count)]


def batch(
    new: list[Second] | None = None, rolled: list[Minute] | None = None, mark: bytes | None = None, going_on: int = 0
) -> Batch:
    return Batch(new or [], rolled or [], mark, going_on)


def test_what_was_written_is_there_for_the_next_one_with_where_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with opened(path) as store:
        assert store.recall() == Recalled()
        store.write(batch(seconds(0, 5), minutes(0, 1), b"first", 3))
        store.write(batch(seconds(5, 2), [], b"second", 5))
    assert path.stat().st_mode & 0o777 == 0o600
    with opened(path) as store:
        assert store.recall() == Recalled(tuple(seconds(0, 7)), 5, (b"first", b"second"))
        assert store.minutes(0.0, 1e12, 10) == tuple(minutes(0, 1))
        assert store.take_news() is None


def test_what_is_beyond_an_hour_of_seconds_and_thirty_days_of_minutes_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path / "history.db") as store:
        store.write(batch(seconds(0, MOST_SECONDS), minutes(0, MOST_MINUTES, b"m"), b"mark"))
        for number in range(3):
            store.write(batch(seconds(MOST_SECONDS + number, 1), minutes(MOST_MINUTES + number, 1, b"m"), b"mark"))
        kept = store.recall().seconds
        assert (len(kept), kept[0].at, kept[-1].at) == (MOST_SECONDS, 3.0, MOST_SECONDS + 2.0)
        rolled = store.minutes(0.0, 1e12, 2 * MOST_MINUTES)
        assert (len(rolled), rolled[0].name, rolled[-1].name) == (MOST_MINUTES, 3, MOST_MINUTES + 2)
        store.write(Batch([], [], None, 0))
        for _ in range(MOST_MARKS):
            store.write(batch(mark=b"later"))
        assert store.recall().marks == (b"later",) * MOST_MARKS


def test_a_clock_that_was_set_ahead_by_a_year_takes_nothing_with_it(tmp_path: Path) -> None:
    with opened(tmp_path / "history.db") as store:
        store.write(batch(seconds(0, 5), minutes(0, 5)))
        store.write(batch(seconds(40_000_000, 1), minutes(700_000, 1)))
        assert len(store.recall().seconds) == 6
        assert len(store.minutes(0.0, 1e12, 100)) == 6


def test_minutes_come_in_order_of_time_wherever_the_clock_was_set_and_no_more_than_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path / "history.db") as store:
        store.write(batch(rolled=minutes(10, 3)))
        store.write(batch(rolled=minutes(8, 4)))
        assert [minute.name for minute in store.minutes(0.0, 1e12, 100)] == [8, 9, 10, 10, 11, 11, 12]
        assert [minute.name for minute in store.minutes(540.0, 660.0, 100)] == [9, 10, 10]
        assert [minute.name for minute in store.minutes(0.0, 1e12, 2)] == [8, 9]


@pytest.mark.parametrize("version", ["0", "7"])
def test_a_file_of_another_version_is_set_aside_whole_and_a_new_one_begun(tmp_path: Path, version: str) -> None:
    path = tmp_path / "history.db"
    with opened(path) as store:
        store.write(batch(seconds(0, 3), minutes(0, 3)))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (version,))
    with opened(path) as store:
        news = store.take_news()
        assert news is not None
        assert f"history.db.schema-{version}" in news
        assert store.take_news() is None
        assert store.recall() == Recalled()
        store.write(batch(seconds(0, 1)))
    with closing(sqlite3.connect(f"{path}.schema-{version}")) as connection:
        assert connection.execute("SELECT count(*) FROM seconds").fetchone() == (3,)


def test_a_damaged_file_is_set_aside_and_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"no database" * 1000)
    with opened(path) as store:
        news = store.take_news()
        assert news is not None
        assert news.startswith("the numbers' history was corrupt")
        store.write(batch(seconds(0, 1)))
        assert len(store.recall().seconds) == 1


def test_a_file_that_somebody_removes_is_put_back_and_told(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with opened(path) as store:
        store.write(batch(seconds(0, 3)))
        for part in tmp_path.glob("history.db*"):
            part.unlink()
        store.write(batch(seconds(3, 1)))
        assert "the numbers' history was removed" in (store.take_news() or "")
    with opened(path) as store:
        assert store.recall().seconds == tuple(seconds(0, 4))


def test_a_disk_that_is_full_takes_nothing_of_a_batch_and_all_of_it_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room: list[str] = ["PRAGMA max_page_count = 40", "PRAGMA max_page_count = 1000000"]
    connect = sqlite3.connect
    made: list[sqlite3.Connection] = []

    def remembered(*args: object, **named: object) -> sqlite3.Connection:
        made.append(cast("sqlite3.Connection", connect(*args, **named)))  # pyright: ignore[reportArgumentType, reportCallIssue] - passed through
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", remembered)
    with opened(tmp_path / "history.db") as store:
        store.write(batch(seconds(0, 3)))
        # SQLite's own limit of a file: the same error as that of a disk without room.
        made[0].execute(room[0])
        with pytest.raises(StoreError, match="full") as refused:
            store.write(batch(seconds(3, 2), minutes(0, 1000)))
        assert refused.value.may_pass
        assert store.recall().seconds == tuple(seconds(0, 3))
        made[0].execute(room[1])
        store.write(batch(seconds(3, 2), minutes(0, 1000)))
        assert store.recall().seconds == tuple(seconds(0, 5))


def test_where_no_file_can_be_made_that_is_an_error_of_its_own_kind(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        SampleStore.open(str(tmp_path / "nowhere" / "history.db"))


def fastest(work: Callable[[], object], times: int = 5) -> float:
    """Seconds that it takes where nothing comes between."""
    taken: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def test_an_hour_out_of_thirty_days_costs_as_much_as_an_hour_out_of_one_and_all_of_it_stays_small(
    tmp_path: Path,
) -> None:
    hour, day = 60, 24 * 60
    with opened(tmp_path / "day.db") as small, opened(tmp_path / "month.db") as large:
        small.write(batch(rolled=minutes(0, day)))
        large.write(batch(rolled=minutes(0, MOST_MINUTES)))
        last = 60.0 * (MOST_MINUTES - hour)
        of_a_day = fastest(lambda: small.minutes(60.0 * (day - hour), 1e12, 10_000))
        of_a_month = fastest(lambda: large.minutes(last, 1e12, 10_000))
        assert len(large.minutes(last, 1e12, 10_000)) == hour
        assert of_a_month < 5 * of_a_day, (of_a_month, of_a_day)
        everything = fastest(lambda: large.minutes(0.0, 1e12, MOST_MINUTES))
        # Thirty times as many rows, and not thirty times thirty.
        assert everything < 10 * 30 * fastest(lambda: small.minutes(0.0, 1e12, day))
    size = sum(os.stat(file).st_size for file in tmp_path.glob("month.db*"))
    assert size < 2 * MOST_MINUTES * len(BODY)
