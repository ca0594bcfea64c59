"""The numbers' past on the disk: the last hour by the second, the last month by the minute. A SQLite file of its own.

Nothing here decides anything, and losing it loses no order. What is kept is bounded by count, not by age: a clock that
is set by a year must not take the past with it.
"""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from arcops.machine.database import Database, StoreError

SCHEMA: Final = 1
MOST_SECONDS: Final = 3_600
"""Rows of one second each that are kept: an hour of them."""
MOST_MINUTES: Final = 43_200
"""Rows of one minute each: thirty days of them."""
MOST_MARKS: Final = 720

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS seconds (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS minutes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, name INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS minutes_by_time ON minutes (at, id);
CREATE TABLE IF NOT EXISTS marks (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL);
"""
_BOUNDS = (("seconds", MOST_SECONDS), ("minutes", MOST_MINUTES), ("marks", MOST_MARKS))
_OPEN = "open"
_REMEMBER = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


@dataclass(frozen=True, slots=True)
class Second:
    """One second: what it holds is the daemon's affair."""

    at: float
    """Seconds since the epoch."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute, by the `name` that whoever wrote it gave it."""

    at: float
    """When it begins, in seconds since the epoch."""
    name: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written at once: all of it, or nothing."""

    seconds: Sequence[Second]
    minutes: Sequence[Minute]
    mark: bytes | None
    """Where its last second ends, for whoever goes on from there."""
    open: int
    """How many of the last seconds, of this and earlier batches, belong to a minute that is not over."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a new supervisor goes on with, oldest first."""

    seconds: tuple[Second, ...] = ()
    open: int = 0
    marks: tuple[bytes, ...] = ()


class SampleStore:
    """The open file. Every method may be called from any thread, and raises StoreError on failure."""

    def __init__(self, database: Database, news: str | None) -> None:
        self._database = database
        self._news = news

    @classmethod
    def open(cls, path: str) -> "SampleStore":
        """Open or make it (0600). One that is damaged, or of another version, is set aside, and a new one begun."""
        try:
            news = _set_aside_other_versions(path)
            database = Database.open(path, _make_tables, lambda _: None)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: {error}", may_pass=True) from error
        return cls(database, news or database.recovered)

    def close(self) -> None:
        """Wait for the statement that runs, then let go of the file."""
        self._database.close()

    def take_news(self) -> str | None:
        """What became of a file that could not be used, or was taken away, in words, once; None where all was well."""
        news, self._news = self._news or self._database.tend(), None
        return None if news is None else news.replace("the state database", "the numbers' history")

    def write(self, batch: Batch) -> None:
        """Append a batch, and remove what is beyond the bounds."""

        def append(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                _append(connection, batch)
                connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

        self._database.write(append)

    def recall(self) -> Recalled:
        """All seconds, and all marks."""

        def read(connection: sqlite3.Connection) -> Recalled:
            kept = connection.execute("SELECT value FROM meta WHERE key = ?", (_OPEN,)).fetchone()
            return Recalled(
                tuple(Second(at, body) for at, body in connection.execute("SELECT at, body FROM seconds ORDER BY id")),
                0 if kept is None else int(kept[0]),
                tuple(body for (body,) in connection.execute("SELECT body FROM marks ORDER BY id")),
            )

        return self._database.read(read)

    def minutes(self, since: float, until: float, limit: int) -> tuple[Minute, ...]:
        """Those that begin from `since` on and before `until`, by time; at most `limit`."""
        query = "SELECT at, name, body FROM minutes WHERE at >= ? AND at < ? ORDER BY at, id LIMIT ?"

        def read(connection: sqlite3.Connection) -> tuple[Minute, ...]:
            return tuple(Minute(*row) for row in connection.execute(query, (since, until, limit)))

        return self._database.read(read)


def _append(connection: sqlite3.Connection, batch: Batch) -> None:
    _insert(connection, "INSERT INTO seconds (at, body) VALUES (?, ?)", ((s.at, s.body) for s in batch.seconds))
    rows = ((minute.at, minute.name, minute.body) for minute in batch.minutes)
    _insert(connection, "INSERT INTO minutes (at, name, body) VALUES (?, ?, ?)", rows)
    if batch.mark is not None:
        connection.execute("INSERT INTO marks (body) VALUES (?)", (batch.mark,))
    connection.execute(_REMEMBER, (_OPEN, str(batch.open)))
    for table, most in _BOUNDS:
        # Ids have no holes but at the old end, so that they count.
        connection.execute(f"DELETE FROM {table} WHERE id <= (SELECT max(id) FROM {table}) - {most}")  # noqa: S608 - names above


def _insert(connection: sqlite3.Connection, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
    connection.executemany(statement, rows)


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.executescript(_TABLES)
    connection.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('schema', ?)", (str(SCHEMA),))


def _set_aside_other_versions(path: str) -> str | None:
    """A file of another schema gets another name, where its own arcops finds nothing wrong with it."""
    version = _version(path)
    if version in (None, str(SCHEMA)):
        return None
    aside = f"{path}.schema-{''.join(c for c in version if c.isalnum())[:20]}"
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.replace(path + suffix, aside + suffix)
    return f"the numbers' history was written by another arcops (schema {version}): it is kept as {aside}"


def _version(path: str) -> str | None:
    """The schema that a file says it has; None where there is no file, or it says nothing."""
    if not os.path.exists(path):
        return None
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    except sqlite3.DatabaseError:
        return None
    return None if row is None else str(row[0])
