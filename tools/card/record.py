"""What was seen raw, kept beside the figures so that it can be test data: without serial numbers and folders."""

import json
import re
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

LIMIT = 300_000
"""Bytes of everything together: it is meant to be committed."""

_SECRET_LINE = re.compile(
    r'^(?P<name>[^:"\n]*(?:UUID|Serial|PDI|Host ID|GUID)[^:"\n]*:\s*)\S.*$', re.MULTILINE | re.IGNORECASE
)
_UUID = re.compile(r"\b(GPU-|MIG-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)


def scrub(text: str, names: Mapping[str, str]) -> str:
    """Without UUIDs, serial numbers and the like; each of `names` (folders of the run) replaced by its stand-in."""
    for name, instead in sorted(names.items(), key=lambda one: -len(one[0])):
        text = text.replace(name, instead)
    text = _SECRET_LINE.sub(lambda found: f"{found['name']}0", text)
    return _UUID.sub(lambda found: f"{found[1] or ''}00000000-0000-0000-0000-000000000000", text)


class Records:
    """Raw outputs by file name."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._kept: dict[str, bytes] = {}

    def keep(self, name: str, said: object) -> None:
        """Text as it is, anything else as JSON."""
        text = said if isinstance(said, str) else json.dumps(said, indent=1, default=str)
        self._kept[name] = scrub(text, self._names).encode()

    @property
    def size(self) -> int:
        return sum(len(one) for one in self._kept.values())

    def write(self, path: Path) -> None:
        """All of them in one archive. What is over LIMIT is left out, the largest first."""
        kept = dict(sorted(self._kept.items(), key=lambda one: len(one[1])))
        while sum(len(one) for one in kept.values()) > LIMIT:
            kept.popitem()
        with tarfile.open(path, "w:gz") as archive:
            for name, text in sorted(kept.items()):
                entry = tarfile.TarInfo(f"recorded/{name}")
                entry.size = len(text)
                archive.addfile(entry, BytesIO(text))
