"""`extends`: a profile file over the one it builds on, over the next, with the place of every key that remains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from arcops.config.source import Data, KeyPath, Source

Place: TypeAlias = tuple[Path, int | None]


@dataclass(slots=True)
class Merged:
    """The data of a chain of files as one mapping."""

    data: dict[str, Data]
    places: dict[KeyPath, Place] = field(default_factory=dict[KeyPath, Place])
    removed: dict[KeyPath, Place] = field(default_factory=dict[KeyPath, Place])
    """Keys that the files set to null: gone, but they must still be keys that exist."""

    def place(self, keys: KeyPath, otherwise: Path) -> Place:
        """Where `keys` was written, or the nearest key around it; the file as a whole if nobody wrote it."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.places:
                return self.places[keys[:length]]
        return (otherwise, None)


def merge(chain: Sequence[Source]) -> Merged:
    """`chain` is the file itself, then what it extends, and so on. Mappings are merged key by key, everything else is
    replaced, null removes."""
    merged = Merged({})
    for source in reversed(chain):
        merged.data = _over(merged, merged.data, source.data, source, ())
    return merged


def _over(merged: Merged, old: Data, new: Mapping[str, Data], source: Source, at: KeyPath) -> dict[str, Data]:
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        here = (*at, key)
        place = (source.path, source.lines.get(here))
        if isinstance(value, dict):
            if not isinstance(result.get(key), dict):
                _forget(merged, here)
            result[key] = _over(merged, result.get(key), value, source, here)
        elif value is None:
            _forget(merged, here)
            result.pop(key, None)
            merged.removed[here] = place
            continue
        else:
            _forget(merged, here)
            result[key] = value
            for inner, line in source.lines.items():
                if inner[: len(here)] == here:
                    merged.places[inner] = (source.path, line)
        merged.places[here] = place
    return result


def _forget(merged: Merged, at: KeyPath) -> None:
    for known in [keys for keys in merged.places if keys[: len(at)] == at]:
        del merged.places[known]
