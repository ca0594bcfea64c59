import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.machine import store as module
from arcops.machine.store import Store, StoredEvent, StoredOrder, StoreError
from tests.helpers import eventually

ORDER = StoredOrder(1, "run", "dflash2", "target-only", 60.0, 1000.5)


def event(reason: str, kind: str = "phase") -> StoredEvent:
    return StoredEvent(0, 12.5, kind, "serving", "dflash2", "L1", reason, '{"a": 1}')


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "arcops.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    opened = Store.open(path)
    yield opened
    opened.close()


def test_a_new_store_knows_nothing(store: Store, path: str) -> None:
    assert store.recovered is None
    assert store.last_order() is None
    assert store.last_events(10) == ()
    assert store.usual_load_time("dflash2") is None
    files = [Path(path).with_name(name) for name in os.listdir(os.path.dirname(path))]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_the_last_order_survives_and_says_what_became_of_it(path: str) -> None:
    first = Store.open(path)
    first.save_order(ORDER)
    first.save_order(StoredOrder(2, "stop", None, None, None, 1001.0))
    assert first.last_order() == StoredOrder(2, "stop", None, None, None, 1001.0)
    first.settle(2, "failed", "stuck")
    first.close()
    again = Store.open(path)
    assert again.last_order() == StoredOrder(2, "stop", None, None, None, 1001.0, "failed", "stuck")
    again.close()


def test_an_order_never_takes_the_place_of_another_one(store: Store) -> None:
    store.save_order(ORDER)
    with pytest.raises(StoreError, match="UNIQUE") as refused:
        store.save_order(StoredOrder(1, "stop", None, None, None, 1001.0))
    assert not refused.value.may_pass
    assert store.last_order() == ORDER


def test_the_order_in_force_is_the_last_one_that_did_not_fail(store: Store) -> None:
    assert store.order_in_force() is None
    assert store.highest_order_id() == 0
    for number in range(1, 5):
        store.save_order(replace(ORDER, id=number, replaces="L0"))
    store.settle(1, "committed", "")
    store.settle(3, "superseded", "")
    store.settle(4, "failed", "out of memory")
    assert store.order_in_force() == replace(ORDER, id=2, replaces="L0")
    assert store.order_in_force(before=2) == replace(ORDER, id=1, replaces="L0", state="committed")
    committed = store.order_in_force(states=("committed",))
    assert committed is not None
    assert committed.id == 1
    assert store.highest_order_id() == 4


def test_an_order_that_was_never_saved_cannot_be_settled(store: Store) -> None:
    with pytest.raises(StoreError, match="no order 9"):
        store.settle(9, "committed", "")


def test_events_come_in_order_and_from_where_a_reader_stopped(store: Store) -> None:
    ids = [store.add_event(event(f"r{number}", "a" if number % 2 else "b")) for number in range(6)]
    assert ids == sorted(set(ids))
    assert [one.reason for one in store.events(after=ids[3])] == ["r4", "r5"]
    assert [one.reason for one in store.events(limit=2)] == ["r0", "r1"]
    assert [one.reason for one in store.last_events(2)] == ["r4", "r5"]
    assert store.last_events(1)[0] == StoredEvent(ids[5], 12.5, "a", "serving", "dflash2", "L1", "r5", '{"a": 1}')


def test_an_event_may_bring_its_id(store: Store) -> None:
    assert store.add_event(replace(event("given"), id=7)) == 7
    assert store.add_event(event("next")) == 8
    with pytest.raises(StoreError, match="UNIQUE"):
        store.add_event(replace(event("taken"), id=7))


def test_a_text_that_cannot_be_kept_is_a_typed_error(store: Store) -> None:
    with pytest.raises(StoreError, match="surrogates") as refused:
        store.add_event(event("half a character: \udcff"))
    assert not refused.value.may_pass


def test_a_file_that_another_process_has_locked_is_read_all_the_same_and_written_later(store: Store, path: str) -> None:
    store.save_order(ORDER)
    with closing(sqlite3.connect(path, isolation_level=None)) as copying:
        copying.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(StoreError, match="locked") as refused:
            store.settle(1, "committed", "")
        assert refused.value.may_pass
        assert store.last_order() == ORDER
        usual = time.monotonic() - began
        began = time.monotonic()
        with pytest.raises(StoreError, match="locked"), store.patiently():
            store.settle(1, "committed", "")
        assert usual < (time.monotonic() - began) / 2, "it waited as who is patient does"
        copying.execute("ROLLBACK")
    store.settle(1, "committed", "")


def test_who_is_patient_waits_for_the_lock(store: Store, path: str) -> None:
    def write() -> None:
        with store.patiently():
            store.save_order(ORDER)

    with closing(sqlite3.connect(path, isolation_level=None)) as copying, ThreadPoolExecutor(1) as pool:
        copying.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        writing = pool.submit(write)
        eventually(lambda: time.monotonic() - began > 0.4, why="the clock stands still")
        copying.execute("ROLLBACK")
        writing.result(5)
    assert store.last_order() == ORDER


def test_old_events_are_pruned_and_ids_never_come_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 10)
    monkeypatch.setattr(module, "_PRUNE_EVERY", 5)
    ids = [store.add_event(event(f"r{number}")) for number in range(25)]
    assert ids[-1] == 25
    assert [one.id for one in store.events()] == list(range(16, 26))


def test_the_usual_load_time_is_the_median_of_the_last_five(store: Store) -> None:
    for seconds in (1000.0, 40.0, 50.0, 45.0, 300.0, 44.0):
        store.record_launch("mtp", seconds)
    assert store.usual_load_time("mtp") == 45.0
    assert store.usual_load_time("target-only") is None


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"\0" * 8192])
def test_a_corrupt_database_is_moved_aside_and_said_so(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    opened = Store.open(path)
    assert opened.recovered is not None
    assert f"{path}.corrupt-1" in opened.recovered
    assert Path(f"{path}.corrupt-1").read_bytes() == content
    opened.save_order(ORDER)
    assert opened.last_order() == ORDER
    opened.close()


def test_damage_in_the_middle_is_found_and_earlier_wrecks_are_kept(path: str) -> None:
    opened = Store.open(path)
    for number in range(300):
        opened.add_event(event(f"reason {number} " * 10))
    opened.close()
    Path(f"{path}.corrupt-1").touch()
    with open(path, "r+b") as file:
        file.seek(5 * 4096)
        file.write(os.urandom(4096 * 3))
    again = Store.open(path)
    assert again.recovered is not None
    assert again.last_events(1) == ()
    assert Path(f"{path}.corrupt-2").exists()
    again.close()


def test_the_database_of_another_arcops_is_left_alone(path: str) -> None:
    Store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99'")
    connection.close()
    with pytest.raises(StoreError, match="schema 99"):
        Store.open(path)
    assert os.listdir(os.path.dirname(path)) == ["arcops.db"]


def test_a_place_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        Store.open(str(tmp_path / "missing" / "arcops.db"))
    with pytest.raises(StoreError, match="directory"):
        Store.open(str(tmp_path))


def test_a_closed_store_is_a_typed_error(path: str) -> None:
    opened = Store.open(path)
    opened.close()
    with pytest.raises(StoreError, match="closed"):
        opened.last_order()


def test_a_row_that_somebody_else_wrote_is_a_typed_error(store: Store, path: str) -> None:
    store.save_order(ORDER)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE orders SET goal = 'dance'")
    connection.close()
    with pytest.raises(StoreError, match="makes no sense"):
        store.last_order()


def test_any_thread_may_write(store: Store) -> None:
    threads = [threading.Thread(target=lambda: [store.add_event(event("r")) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.events()) == 80


def test_it_knows_how_the_last_start_of_each_profile_ended(store: Store) -> None:
    def phase(profile: str | None, phase: str, data: str = "{}", kind: str = "phase") -> StoredEvent:
        return StoredEvent(0, 1.0, kind, phase, profile, "L1", f"{profile} {phase}", data)

    for one in (
        phase("a", "serving"),
        phase("a", "stopping", '{"cause":"out_of_memory"}'),
        phase("b", "failed", '{"cause":"bad_flag"}'),
        phase("b", "serving"),
        phase("b", "stopping"),
        phase("c", "starting"),
        phase("c", "serving", kind="order"),
        phase(None, "serving"),
    ):
        store.add_event(one)
    assert [event.reason for event in store.last_results()] == ["a stopping", "b serving"]


def test_it_knows_how_long_the_last_loads_of_each_profile_took(store: Store) -> None:
    for seconds in range(1, 8):
        store.record_launch("a", float(seconds))
    store.record_launch("b", 40.0)
    assert store.loads_by_profile() == {"a": (7.0, 6.0, 5.0, 4.0, 3.0), "b": (40.0,)}
