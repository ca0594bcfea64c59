"""A database that is taken away, or broken, while it is in use."""

import errno
import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from arcops.machine.store import Store, StoredEvent, StoredOrder, StoreError

FIRST = StoredOrder(1, "run", "target-only", None, None, 1.0, "committed")
SECOND = StoredOrder(2, "run", "mtp", "target-only", 5.0, 2.0)
EVENT = StoredEvent(0, 1.0, "phase", "serving", "mtp", None, "it serves")


@pytest.fixture
def store(tmp_path: Path) -> Generator[Store]:
    (tmp_path / "state").mkdir()
    store = Store.open(str(tmp_path / "state" / "arcops.db"))
    store.save_order(FIRST)
    store.add_event(EVENT)
    store.remember("attempts", "three")
    yield store
    store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "arcops.db"


def read_anew(path: Path) -> tuple[list[int], list[str], str | None]:
    """What another process finds: orders, reasons, and what was remembered."""
    with closing(Store.open(str(path))) as other:
        assert other.recovered is None
        ids = [order.id for order in (other.order_in_force(before=2), other.last_order()) if order is not None]
        return ids, [event.reason for event in other.events()], other.recall("attempts")


def test_a_file_that_is_removed_is_put_back_with_all_that_was_in_it(store: Store, path: Path) -> None:
    path.unlink()
    news = store.tend()
    assert news is not None
    assert "removed" in news
    assert store.tend() is None
    assert read_anew(path) == ([1, 1], ["it serves"], "three")
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_order_is_never_written_into_a_file_that_was_removed(store: Store, path: Path) -> None:
    for each in path.parent.iterdir():
        each.unlink()
    store.save_order(SECOND)
    assert read_anew(path) == ([1, 2], ["it serves"], "three")


def test_a_folder_that_is_gone_refuses_the_order_and_loses_nothing(store: Store, path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))
    with pytest.raises(StoreError) as refused:
        store.save_order(SECOND)
    assert refused.value.may_pass
    path.parent.mkdir()
    store.save_order(SECOND)
    assert read_anew(path) == ([1, 2], ["it serves"], "three")
    assert store.last_order() == SECOND


def test_another_file_in_its_place_is_kept_aside(store: Store, path: Path) -> None:
    path.unlink()
    path.write_text("somebody's notes")
    news = store.tend()
    assert news is not None
    assert "corrupt-1" in news
    assert path.with_name("arcops.db.corrupt-1").read_text() == "somebody's notes"
    assert read_anew(path) == ([1, 1], ["it serves"], "three")


def test_a_file_that_breaks_in_use_is_made_anew_with_the_orders_in_force(store: Store, path: Path) -> None:
    store.save_order(SECOND)
    break_it(path)
    store.settle(2, "committed", "it serves")
    news = store.tend()
    assert news is not None
    assert "broke while it was in use" in news
    assert read_anew(path) == ([1, 2], [], "three")
    assert store.order_in_force() is not None
    assert store.recall("attempts") == "three"


def break_it(path: Path) -> None:
    for each in (path, path.with_name("arcops.db-wal")):
        with each.open("r+b") as file:
            file.write(b"no database" * (each.stat().st_size // 11 + 1))


def test_a_copy_that_fails_midway_is_tried_again(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.unlink()

    def refused(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr("arcops.machine.database._connect", refused)
        with pytest.raises(StoreError, match="disk I/O error"):
            store.tend()
    assert "put back" in (store.tend() or "")
    store.save_order(SECOND)
    assert read_anew(path)[0] == [1, 2]


def rename_that_is_refused(*_: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_copy_that_could_not_be_put_in_place_is_the_only_one_and_is_used(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file has no name, and its descriptors are closed by then."""
    path.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename_that_is_refused)
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot be made anew"):
                store.tend()
    assert "put back" in (store.tend() or "")
    assert store.tend() is None
    store.save_order(SECOND)
    assert read_anew(path) == ([1, 2], ["it serves"], "three")


def test_where_that_copy_was_taken_away_too_the_orders_in_force_are_written_anew(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename_that_is_refused)
        with pytest.raises(StoreError):
            store.tend()
    path.with_name(f"{path.name}.new").unlink()
    assert "the history before is lost" in (store.tend() or "")
    store.save_order(SECOND)
    assert read_anew(path)[0] == [1, 2]


def test_readers_and_writers_of_other_threads_go_on(store: Store, path: Path) -> None:
    faults: list[Exception] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                store.events()
            except StoreError:
                # While it is being exchanged a reader may be told so, and tries again.
                continue
            except Exception as fault:  # noqa: BLE001 - whatever it is, it is the test's business
                faults.append(fault)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(2, 12):
        path.unlink()
        store.save_order(StoredOrder(number, "stop", None, None, None, 1.0))
    done.set()
    reader.join()
    assert faults == []
    assert store.highest_order_id() == 11
