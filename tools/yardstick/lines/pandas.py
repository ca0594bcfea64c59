"""As much of pandas as `vllm bench serve --dataset-name custom` uses, for a runtime without it: rows of JSON Lines."""

import json
from collections.abc import Iterator
from pathlib import Path


class Row(dict[str, object]):
    """One line."""

    def to_dict(self) -> dict[str, object]:
        return dict(self)


class Table:
    """All lines, with the columns of the first."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self.columns = list(rows[0]) if rows else []

    def iterrows(self) -> Iterator[tuple[int, Row]]:
        return iter(enumerate(self._rows))


def read_json(path_or_buf: str, *, lines: bool) -> Table:
    """Raises NotImplementedError for what is not JSON Lines."""
    if not lines:
        raise NotImplementedError("only JSON Lines")
    return Table([Row(json.loads(line)) for line in Path(path_or_buf).read_text().splitlines()])
