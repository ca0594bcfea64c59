"""What survives a reboot: the last order, the history of events, and how long loads take. SQLite, one writer."""

import contextlib
import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal, TypeVar

import msgspec

from arcops.machine.database import Database, StoreError

SCHEMA = 1
MOST_EVENTS = 100_000
_PRUNE_EVERY = 1_000
"""Events; deleting in batches keeps the usual insert cheap."""
_LOADS_COUNTED = 5

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
_LOADS = """
SELECT profile, seconds_to_ready FROM (
    SELECT *, row_number() OVER (PARTITION BY profile ORDER BY id DESC) AS place FROM launches)
WHERE place <= ? ORDER BY profile, id DESC
"""
_LAST_RESULTS = """
SELECT * FROM events WHERE id IN (
    SELECT max(id) FROM events
    WHERE kind = 'phase' AND profile IS NOT NULL AND (phase = 'serving' OR data LIKE '%"cause":%')
    GROUP BY profile)
ORDER BY profile
"""


class Store:
    """One open database. Every method may be called from any thread, and raises StoreError on failure."""

    def __init__(self, path: str) -> None:
        """Raises StoreError: see `open`."""
        self._remembered: dict[str, str] = {}
        self._kept: tuple[StoredOrder, ...] = ()
        """The orders that must not be lost, should the file break while it is in use."""
        self._database = Database.open(path, _make, self._rescue)
        self._kept = self._standing()

    @classmethod
    def open(cls, path: str) -> "Store":
        """Open or make the database (0600). A corrupt one is moved aside, and `recovered` says so."""
        return cls(path)

    @property
    def recovered(self) -> str | None:
        """Where a corrupt database was moved to when this one was opened, in words; None when all was well."""
        return self._database.recovered

    def close(self) -> None:
        """Wait for the statement that runs, then let go of the file."""
        self._database.close()

    def tend(self) -> str | None:
        """Put the database back where its file was removed, or another put in its place; what was done, in words.

        What was done by a write in the meantime is told as well. Raises StoreError where it cannot be done (yet).
        """
        return self._database.tend()

    def patiently(self) -> contextlib.AbstractContextManager[None]:
        """Within this, a write waits up to two seconds for another process that has the file locked."""
        return self._database.patiently()

    def _rescue(self, new: sqlite3.Connection) -> None:
        for order in self._kept:
            new.execute(_SAVE_ORDER, asdict(order))
        for key, value in self._remembered.items():
            new.execute(_REMEMBER, (key, value))

    def _standing(self) -> tuple[StoredOrder, ...]:
        """The order in force, and the one that it would return to."""
        try:
            force = self.order_in_force()
            before = None if force is None else self.order_in_force(before=force.id, states=("committed",))
        except StoreError:
            return self._kept
        return tuple(order for order in (before, force) if order is not None)

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

        return self._database.write(insert)

    def events(self, after: int = 0, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """Events with an id above `after`, oldest first."""
        return self._rows(StoredEvent, "SELECT * FROM events WHERE id > ? ORDER BY id LIMIT ?", (after, limit))

    def last_events(self, n: int) -> tuple[StoredEvent, ...]:
        """The newest `n` events, oldest first."""
        return self._rows(StoredEvent, "SELECT * FROM events ORDER BY id DESC LIMIT ?", (n,))[::-1]

    def remember(self, key: str, value: str) -> None:
        """Keep one value under a name of ours; it takes the place of the last one."""
        self._database.write(lambda connection: connection.execute(_REMEMBER, (f"own:{key}", value)))
        self._remembered[f"own:{key}"] = value

    def recall(self, key: str) -> str | None:
        """What was remembered under this name, or None."""

        def read(connection: sqlite3.Connection) -> str | None:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (f"own:{key}",)).fetchone()
            return None if row is None else str(row[0])

        return self._database.read(read)

    def record_launch(self, profile: str, seconds_to_ready: float) -> None:
        """Remember how long a load took."""
        statement = "INSERT INTO launches (profile, seconds_to_ready) VALUES (?, ?)"
        self._database.write(lambda connection: connection.execute(statement, (profile, seconds_to_ready)))

    def usual_load_time(self, profile: str) -> float | None:
        """Seconds to readiness, median of the last five loads of the profile; None before the first."""
        query = "SELECT * FROM launches WHERE profile = ? ORDER BY id DESC LIMIT ?"
        loads = self._rows(_Load, query, (profile, _LOADS_COUNTED))
        return median(load.seconds_to_ready for load in loads) if loads else None

    def loads_by_profile(self) -> dict[str, tuple[float, ...]]:
        """Seconds to readiness of each profile's last five loads, the newest first."""
        found: dict[str, tuple[float, ...]] = {}
        for load in self._rows(_ProfileLoad, _LOADS, (_LOADS_COUNTED,)):
            found[load.profile] = (*found.get(load.profile, ()), load.seconds_to_ready)
        return found

    def last_results(self) -> tuple[StoredEvent, ...]:
        """Of each profile that was ever started the event of its last `serving`, or of its last failure if that came
        later; by name."""
        return self._rows(StoredEvent, _LAST_RESULTS)

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

        changed = self._database.write(write)
        self._kept = self._standing()
        return changed

    def _confirm(self, order_id: object) -> None:
        """Read an order as another process would."""
        self._database.as_another(
            lambda other: other.execute("SELECT * FROM orders WHERE id = ?", (order_id,)).fetchone()
        )

    def _rows(self, kind: type[T], query: str, values: tuple[object, ...] = ()) -> tuple[T, ...]:
        """The rows as `kind`, by column name. A row that does not fit was written by somebody else: StoreError."""

        def read(connection: sqlite3.Connection) -> tuple[T, ...]:
            cursor = connection.execute(query, values)
            names = [column[0] for column in cursor.description]
            return tuple(msgspec.convert(dict(zip(names, row, strict=True)), type=kind) for row in cursor)

        try:
            return self._database.read(read)
        except msgspec.ValidationError as error:
            raise StoreError(f"a row makes no sense: {error}") from error


@dataclass(frozen=True, slots=True)
class _Load:
    seconds_to_ready: float


@dataclass(frozen=True, slots=True)
class _ProfileLoad:
    profile: str
    seconds_to_ready: float


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables that are missing. Raises sqlite3.DatabaseError when another arcops wrote them."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is not None:
        row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        if row is not None and str(row[0]) != str(SCHEMA):
            raise sqlite3.DatabaseError(
                f"it has schema {row[0]}, this arcops knows {SCHEMA}: it was written by a newer one"
            )
    connection.executescript(_TABLES)
    connection.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('schema', ?)", (str(SCHEMA),))
