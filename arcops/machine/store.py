"""What survives a reboot: the last order, the history of events, and how long loads take. SQLite, one writer.

Reads have a connection of their own: in WAL mode no writer, of this process or another, keeps a reader waiting.
"""

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal, TypeVar

import msgspec

from arcops.core.errors import ArcopsError

SCHEMA = 1
MOST_EVENTS = 100_000
_PRUNE_EVERY = 1_000
"""Events; deleting in batches keeps the usual insert cheap."""
_LOADS_COUNTED = 5
_WAIT_MS = 100
"""Milliseconds that a statement waits for another process (a copy by the operator) to let go of the file."""
_PATIENCE_MS = 2_000
"""The same where somebody waits for the statement, and would rather wait than be refused."""
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY, goal TEXT NOT NULL, profile TEXT, fallback TEXT, drain REAL,
    accepted_at REAL NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL, replaces TEXT);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, phase TEXT NOT NULL,
    profile TEXT, launch_id TEXT, reason TEXT NOT NULL, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS launches (
    id INTEGER PRIMARY KEY AUTOINCREMENT, profile TEXT NOT NULL, seconds_to_ready REAL NOT NULL);
CREATE INDEX IF NOT EXISTS launches_by_profile ON launches (profile, id);
"""

Goal = Literal["run", "stop"]
OrderState = Literal["accepted", "committed", "failed", "superseded"]
T = TypeVar("T")


class StoreError(ArcopsError):
    """The database could not be read or written: `reason` in words, and whether it `may_pass` (a full disk, a lock)."""

    def __init__(self, reason: str, *, may_pass: bool = False, broken: bool = False) -> None:
        super().__init__(f"the state database failed: {reason}", hint="look at the disk that holds the state folder")
        self.reason = reason
        self.may_pass = may_pass
        self.broken = broken
        """The file makes no sense any more."""


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """An order as it was accepted, and what became of it. A later order has a larger id."""

    id: int
    goal: Goal
    profile: str | None
    """What is to run; None for a stop."""
    fallback: str | None
    """What to go back to when the new profile fails; None for nothing."""
    drain: float | None
    """Seconds that open requests may go on; None for what the profile says."""
    accepted_at: float
    """Seconds since the epoch."""
    state: OrderState = "accepted"
    why: str = ""
    replaces: str | None = None
    """Id of the launch that it takes the place of; None when none was running."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One line of the history. An `id` of 0 has the store give it the next one."""

    id: int
    at: float
    """Seconds since the epoch."""
    kind: str
    phase: str
    profile: str | None
    launch_id: str | None
    reason: str
    data: str = "{}"
    """JSON."""


_SAVE_ORDER = """
INSERT INTO orders (id, goal, profile, fallback, drain, accepted_at, state, why, replaces)
VALUES (:id, :goal, :profile, :fallback, :drain, :accepted_at, :state, :why, :replaces)
"""
_ADD_EVENT = """
INSERT INTO events (id, at, kind, phase, profile, launch_id, reason, data)
VALUES (nullif(:id, 0), :at, :kind, :phase, :profile, :launch_id, :reason, :data)
"""
_REMEMBER = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_ORDER_IN_FORCE = """
SELECT * FROM orders WHERE id < coalesce(?, 1 << 62) AND state IN (SELECT value FROM json_each(?))
ORDER BY id DESC LIMIT 1
"""


class Store:
    """One open database. Every method may be called from any thread, and raises StoreError on failure."""

    def __init__(
        self, path: str, writer: sqlite3.Connection, reader: sqlite3.Connection, recovered: str | None
    ) -> None:
        self._path = path
        self._writer = _Shared(writer)
        self._reader = _Shared(reader)
        self.recovered = recovered
        """Where a corrupt database was moved to when this one was opened, in words; None when all was well."""
        self._file = os.stat(path)
        self._tending = threading.RLock()
        self._news: str | None = None
        self._remembered: dict[str, str] = {}
        self._open = True
        self._kept: tuple[StoredOrder, ...] = ()
        """The orders that must not be lost, should the file break while it is in use."""
        self._kept = self._standing()

    @classmethod
    def open(cls, path: str) -> "Store":
        """Open or make the database (0600). A corrupt one is moved aside, and `recovered` says so."""
        try:
            try:
                return cls(path, *_connect(path), None)
            except sqlite3.DatabaseError as error:
                if not _is_broken(error):
                    raise
                aside = _move_aside(path)
                return cls(path, *_connect(path), f"the state database was corrupt ({error}); it is kept as {aside}")
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: {error}") from error

    def close(self) -> None:
        """Wait for the statement that runs, then let go of the file."""
        for connection in (self._reader, self._writer):
            connection.close()

    def tend(self) -> str | None:
        """Put the database back where its file was removed, or another put in its place; what was done, in words.

        What was done by a write in the meantime is told as well. Raises StoreError where it cannot be done (yet).
        """
        with self._tending:
            self._mend()
            news, self._news = self._news, None
            return news

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(self._file, os.stat(self._path))
        except OSError:
            return False

    def _mend(self) -> None:
        if not self._open and os.path.exists(self._path):
            self._reopen()
        elif not self._is_in_place():
            self._put_back()

    def _put_back(self) -> None:
        """The old file has no name any more, and is whole behind our descriptors: all of it is copied."""
        words = "the state database was removed by somebody, and is put back"
        self._renew(words, lambda new: self._writer.use(lambda old: old.backup(new)))

    def _replace_broken(self, why: str) -> None:
        """Nothing can be had from the old file; what must not be lost is known."""

        def fill(new: sqlite3.Connection) -> None:
            _make_tables(new)
            for order in self._kept:
                new.execute(_SAVE_ORDER, asdict(order))
            for key, value in self._remembered.items():
                new.execute(_REMEMBER, (key, value))

        self._renew(f"the state database broke while it was in use ({why}): the history before is lost", fill)

    def _renew(self, words: str, fill: Callable[[sqlite3.Connection], object]) -> None:
        """Make the database anew, filled, go on with it, and have `words` told of it."""
        staged = f"{self._path}.new"
        try:
            for leftover in (staged, f"{staged}-journal", f"{staged}-wal", f"{staged}-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(leftover)
            os.close(os.open(staged, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            with contextlib.closing(_plain(staged)) as new:
                fill(new)
                # Whole in one file, so that it can be renamed.
                new.execute("PRAGMA journal_mode = DELETE")
            # First: with its last connection SQLite removes -wal and -shm by their names, which are the new one's soon.
            self._open = False
            for connection in (self._reader, self._writer):
                connection.close()
            aside = _move_aside(self._path) if os.path.lexists(self._path) else None
            os.rename(staged, self._path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self._path} cannot be made anew: {error}", may_pass=True) from error
        self._news = words + ("" if aside is None else f"; the file that was there is kept as {aside}")
        self._reopen()

    def _reopen(self) -> None:
        try:
            writer, reader = _connect(self._path)
            self._file = os.stat(self._path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self._path}: {error}", may_pass=True) from error
        self._writer.replace(writer)
        self._reader.replace(reader)
        self._open = True

    def _standing(self) -> tuple[StoredOrder, ...]:
        """The order in force, and the one that it would return to."""
        try:
            force = self.order_in_force()
            before = None if force is None else self.order_in_force(before=force.id, states=("committed",))
        except StoreError:
            return self._kept
        return tuple(order for order in (before, force) if order is not None)

    @contextlib.contextmanager
    def patiently(self) -> Generator[None]:
        """Within this, a write waits up to two seconds for another process that has the file locked."""
        self._write(lambda connection: connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}"))
        try:
            yield
        finally:
            self._write(lambda connection: connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}"))

    def save_order(self, order: StoredOrder) -> None:
        """Write an accepted order down, on the disk before this returns: it has to survive a power cut.

        An id that is there already is a StoreError: whoever wrote it was promised that its order lasts.
        """
        self._durably(_SAVE_ORDER, asdict(order))

    def settle(self, order_id: int, state: Literal["committed", "failed", "superseded"], why: str) -> None:
        """Write down what became of an order, as durably as the order itself. StoreError when there is none such."""
        values = {"id": order_id, "state": state, "why": why}
        if self._durably("UPDATE orders SET state = :state, why = :why WHERE id = :id", values) == 0:
            raise StoreError(f"there is no order {order_id}")

    def last_order(self) -> StoredOrder | None:
        """The order that was accepted last, whatever became of it; None before the first."""
        found = self._rows(StoredOrder, "SELECT * FROM orders ORDER BY id DESC LIMIT 1")
        return found[0] if found else None

    def order_in_force(
        self, before: int | None = None, states: Collection[OrderState] = ("accepted", "committed")
    ) -> StoredOrder | None:
        """The last order in one of these states, of those before the id `before` (None: of all)."""
        found = self._rows(StoredOrder, _ORDER_IN_FORCE, (before, json.dumps(sorted(states))))
        return found[0] if found else None

    def highest_order_id(self) -> int:
        """The id of the last order; 0 before the first."""
        last = self.last_order()
        return 0 if last is None else last.id

    def add_event(self, event: StoredEvent) -> int:
        """Append to the history; an id that is given here is larger than that of every earlier event, pruned or not."""

        def insert(connection: sqlite3.Connection) -> int:
            placed = connection.execute(_ADD_EVENT, asdict(event)).lastrowid or 0
            if placed % _PRUNE_EVERY == 0:
                connection.execute("DELETE FROM events WHERE id <= ?", (placed - MOST_EVENTS,))
            return placed

        return self._write(insert)

    def events(self, after: int = 0, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """Events with an id above `after`, oldest first."""
        return self._rows(StoredEvent, "SELECT * FROM events WHERE id > ? ORDER BY id LIMIT ?", (after, limit))

    def last_events(self, n: int) -> tuple[StoredEvent, ...]:
        """The newest `n` events, oldest first."""
        return self._rows(StoredEvent, "SELECT * FROM events ORDER BY id DESC LIMIT ?", (n,))[::-1]

    def remember(self, key: str, value: str) -> None:
        """Keep one value under a name of ours; it takes the place of the last one."""
        self._write(lambda connection: connection.execute(_REMEMBER, (f"own:{key}", value)))
        self._remembered[f"own:{key}"] = value

    def recall(self, key: str) -> str | None:
        """What was remembered under this name, or None."""

        def read(connection: sqlite3.Connection) -> str | None:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (f"own:{key}",)).fetchone()
            return None if row is None else str(row[0])

        return self._read(read)

    def record_launch(self, profile: str, seconds_to_ready: float) -> None:
        """Remember how long a load took."""
        statement = "INSERT INTO launches (profile, seconds_to_ready) VALUES (?, ?)"
        self._write(lambda connection: connection.execute(statement, (profile, seconds_to_ready)))

    def usual_load_time(self, profile: str) -> float | None:
        """Seconds to readiness, median of the last five loads of the profile; None before the first."""
        query = "SELECT * FROM launches WHERE profile = ? ORDER BY id DESC LIMIT ?"
        loads = self._rows(_Load, query, (profile, _LOADS_COUNTED))
        return median(load.seconds_to_ready for load in loads) if loads else None

    def _durably(self, statement: str, values: Mapping[str, object]) -> int:
        """Run one statement and wait for the disk; the number of rows that it changed."""

        def write(connection: sqlite3.Connection) -> int:
            # Events may lose their last seconds in a power cut, orders may not: only they wait for the disk.
            connection.execute("PRAGMA synchronous = FULL")
            try:
                changed = connection.execute(statement, values).rowcount
                self._confirm(values["id"])
                return changed
            finally:
                connection.execute("PRAGMA synchronous = NORMAL")

        changed = self._write(write)
        self._kept = self._standing()
        return changed

    def _confirm(self, order_id: object) -> None:
        """Read an order as another process would: what is in our page cache may have no file behind it any more."""
        with contextlib.closing(_plain(self._path)) as other:
            other.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
            other.execute("SELECT * FROM orders WHERE id = ?", (order_id,)).fetchone()

    def _rows(self, kind: type[T], query: str, values: tuple[object, ...] = ()) -> tuple[T, ...]:
        """The rows as `kind`, by column name. A row that does not fit was written by somebody else: StoreError."""

        def read(connection: sqlite3.Connection) -> tuple[T, ...]:
            cursor = connection.execute(query, values)
            names = [column[0] for column in cursor.description]
            return tuple(msgspec.convert(dict(zip(names, row, strict=True)), type=kind) for row in cursor)

        try:
            return self._read(read)
        except msgspec.ValidationError as error:
            raise StoreError(f"a row makes no sense: {error}") from error

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._tending:
            self._mend()
            try:
                return self._writer.use(work)
            except StoreError as error:
                if not error.broken:
                    raise
                self._replace_broken(error.reason)
                return self._writer.use(work)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self._reader.use(work)


class _Shared:
    """A connection that one thread at a time uses, its faults typed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._turn = threading.Lock()

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._turn:
            try:
                return work(self._connection)
            except sqlite3.OperationalError as error:
                raise StoreError(str(error), may_pass=True) from error
            except (sqlite3.Error, UnicodeError, OverflowError) as error:
                # The latter two are of values that SQLite cannot hold: half a character, a number past 64 bits.
                broken = isinstance(error, sqlite3.DatabaseError) and _is_broken(error)
                raise StoreError(str(error), broken=broken) from error

    def replace(self, connection: sqlite3.Connection) -> None:
        """Go on with another connection."""
        with self._turn:
            self._connection = connection

    def close(self) -> None:
        # Where its file is broken, what it had still to write down at the end is lost with it.
        with self._turn, contextlib.suppress(sqlite3.DatabaseError):
            self._connection.close()


@dataclass(frozen=True, slots=True)
class _Load:
    seconds_to_ready: float


class _BrokenError(sqlite3.DatabaseError):
    """SQLite's own check found damage."""


def _connect(path: str) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """A connection that writes, and one that reads."""
    # Made here, because SQLite would make it with the umask; its -wal and -shm follow the mode of the database.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with contextlib.ExitStack() as undone:
        writer = undone.enter_context(contextlib.closing(_plain(path)))
        writer.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = NORMAL")
        _check(writer)
        _make_tables(writer)
        writer.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
        reader = undone.enter_context(contextlib.closing(_plain(path)))
        reader.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
        reader.execute("PRAGMA query_only = ON")
        undone.pop_all()
    return writer, reader


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.executescript(_TABLES)
    connection.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('schema', ?)", (str(SCHEMA),))


def _plain(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _check(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError when the file is damaged, or was written by another arcops."""
    verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    if verdict != "ok":
        raise _BrokenError(verdict)
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
        return
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    if row is not None and str(row[0]) != str(SCHEMA):
        raise sqlite3.DatabaseError(
            f"it has schema {row[0]}, this arcops knows {SCHEMA}: it was written by a newer one"
        )


def _is_broken(error: sqlite3.DatabaseError) -> bool:
    # Only errors from SQLite itself carry a code; extended codes keep the plain one in their low byte.
    return isinstance(error, _BrokenError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN


def _move_aside(path: str) -> str:
    number = 1
    while os.path.exists(f"{path}.corrupt-{number}"):
        number += 1
    aside = f"{path}.corrupt-{number}"
    os.rename(path, aside)
    for suffix in ("-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return aside
