"""A look into an instance's database by somebody who is not its daemon: nothing is made, mended or moved."""

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from arcops.core.errors import ArcopsError

Value: TypeAlias = "str | int | float | None"
Row: TypeAlias = "dict[str, Value]"

_WAIT = 2.0
"""Seconds that a statement waits for a writer."""


@dataclass(frozen=True, slots=True)
class History:
    """The newest rows of each table, oldest first, in the names of their columns."""

    events: tuple[Row, ...]
    orders: tuple[Row, ...]
    launches: tuple[Row, ...]


def read(path: str, most: int) -> History:
    """At most `most` rows of each table. Raises ArcopsError: there is no such file, or it is damaged or locked."""
    try:
        # mode=ro: SQLite makes no file, and a damaged one stays as it is.
        uri = f"file:{quote(path)}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_WAIT)) as connection:
            connection.execute("PRAGMA query_only = ON")
            events, orders, launches = (_newest(connection, table, most) for table in ("events", "orders", "launches"))
    except (sqlite3.Error, UnicodeError) as error:
        raise ArcopsError(f"the database {path} cannot be read: {error}") from error
    return History(events, orders, launches)


def _newest(connection: sqlite3.Connection, table: str, most: int) -> tuple[Row, ...]:
    cursor = connection.execute(f"SELECT * FROM {table} ORDER BY id DESC LIMIT ?", (most,))  # noqa: S608 - names above
    names = [str(column[0]) for column in cursor.description]
    return tuple(_row(names, values) for values in cursor)[::-1]


def _row(names: Sequence[str], values: Sequence[object]) -> Row:
    return {
        name: value if value is None or isinstance(value, (str, int, float)) else repr(value)
        for name, value in zip(names, values, strict=True)
    }
