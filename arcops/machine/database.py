"""A SQLite file that is put back where somebody removes it, and made anew where it breaks. One process writes.

Reads have a connection of their own: in WAL mode no writer, of this process or another, keeps a reader waiting.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from typing import TypeVar

from arcops.core.errors import ArcopsError

_WAIT_MS = 100
"""Milliseconds that a statement waits for another process (a copy by the operator) to let go of the file."""
_PATIENCE_MS = 2_000
"""The same where somebody waits for the statement, and would rather wait than be refused."""
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

T = TypeVar("T")
Fill = Callable[[sqlite3.Connection], object]
"""Writes something into a database."""


class StoreError(ArcopsError):
    """The database could not be read or written: `reason` in words, and whether it `may_pass` (a full disk, a lock)."""

    def __init__(self, reason: str, *, may_pass: bool = False, broken: bool = False) -> None:
        super().__init__(f"the state database failed: {reason}", hint="look at the disk that holds the state folder")
        self.reason = reason
        self.may_pass = may_pass
        self.broken = broken
        """The file makes no sense any more."""


class Database:
    """One open file. Every method may be called from any thread, and raises StoreError on failure."""

    def __init__(self, path: str, make: Fill, rescue: Fill, recovered: str | None = None) -> None:
        """Raises OSError and sqlite3.Error: see `open`."""
        self._path = path
        self._staged = f"{path}.new"
        self._make = make
        self._rescue = rescue
        self.recovered = recovered
        """Where a corrupt database was moved to when this one was opened, in words; None when all was well."""
        writer, reader = _connect(path, make)
        self._writer = _Shared(writer)
        self._reader = _Shared(reader)
        self._file = os.stat(path)
        self._tending = threading.RLock()
        self._news: str | None = None
        self._open = True

    @classmethod
    def open(cls, path: str, make: Fill, rescue: Fill) -> "Database":
        """Open or make the database (0600). A corrupt one is moved aside, and `recovered` says so.

        `make` makes the tables that are missing, and raises sqlite3.DatabaseError where they are another's; `rescue`
        writes what must not be lost into one that takes the place of a file that broke while it was in use.
        """
        try:
            try:
                return cls(path, make, rescue)
            except sqlite3.DatabaseError as error:
                if not _is_broken(error):
                    raise
                aside = _move_aside(path)
                return cls(path, make, rescue, f"the state database was corrupt ({error}); it is kept as {aside}")
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: {error}") from error

    def close(self) -> None:
        """Wait for the statement that runs, then let go of the file."""
        for connection in (self._reader, self._writer):
            connection.close()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` on the connection that writes; a file that is found lost or broken is put back before."""
        with self._tending:
            self._mend()
            try:
                return self._writer.use(work)
            except StoreError as error:
                if not error.broken:
                    raise
                self._replace_broken(error.reason)
                return self._writer.use(work)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` on the connection that reads."""
        return self._reader.use(work)

    @contextlib.contextmanager
    def patiently(self) -> Generator[None]:
        """Within this, a write waits up to two seconds for another process that has the file locked."""
        self.write(lambda connection: connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}"))
        try:
            yield
        finally:
            self.write(lambda connection: connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}"))

    def as_another(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` as another process would: what is in our page cache may have no file behind it any more.

        Raises sqlite3.Error.
        """
        with contextlib.closing(_plain(self._path)) as other:
            other.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
            return work(other)

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
        if not self._open:
            self._finish()
        elif not self._is_in_place():
            self._put_back()

    def _finish(self) -> None:
        """A renewal that did not come to its end. Its copy is whole, and may be the only one: see `_renew`."""
        try:
            if not os.path.lexists(self._path):
                os.rename(self._staged, self._path)
        except FileNotFoundError:
            self._replace_broken("its copy was removed too")
        except OSError as error:
            raise StoreError(f"{self._path} cannot be made anew: {error}", may_pass=True) from error
        else:
            self._reopen()

    def _put_back(self) -> None:
        """The old file has no name any more, and is whole behind our descriptors: all of it is copied."""
        words = "the state database was removed by somebody, and is put back"
        self._renew(words, lambda new: self._writer.use(lambda old: old.backup(new)))

    def _replace_broken(self, why: str) -> None:
        """Nothing can be had from the old file; what must not be lost is known."""

        def fill(new: sqlite3.Connection) -> None:
            self._make(new)
            self._rescue(new)

        self._renew(f"the state database broke while it was in use ({why}): the history before is lost", fill)

    def _renew(self, words: str, fill: Fill) -> None:
        """Make the database anew, filled, go on with it, and have `words` told of it."""
        staged, aside = self._staged, None
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
            self._open, self._news = False, words
            for connection in (self._reader, self._writer):
                connection.close()
            aside = _move_aside(self._path) if os.path.lexists(self._path) else None
            os.rename(staged, self._path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self._path} cannot be made anew: {error}", may_pass=True) from error
        if aside is not None:
            self._news = f"{words}; the file that was there is kept as {aside}"
        self._reopen()

    def _reopen(self) -> None:
        try:
            writer, reader = _connect(self._path, self._make)
            self._file = os.stat(self._path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self._path}: {error}", may_pass=True) from error
        self._writer.replace(writer)
        self._reader.replace(reader)
        self._open = True


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


class _BrokenError(sqlite3.DatabaseError):
    """SQLite's own check found damage."""


def _connect(path: str, make: Fill) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """A connection that writes, and one that reads."""
    # Made here, because SQLite would make it with the umask; its -wal and -shm follow the mode of the database.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with contextlib.ExitStack() as undone:
        writer = undone.enter_context(contextlib.closing(_plain(path)))
        writer.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = NORMAL")
        verdict = str(writer.execute("PRAGMA quick_check(1)").fetchone()[0])
        if verdict != "ok":
            raise _BrokenError(verdict)
        make(writer)
        writer.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
        reader = undone.enter_context(contextlib.closing(_plain(path)))
        reader.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
        reader.execute("PRAGMA query_only = ON")
        undone.pop_all()
    return writer, reader


def _plain(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


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
