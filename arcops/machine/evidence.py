"""A folder of what was seen of a backend in trouble: private, bounded in bytes, and only the newest few of them."""

import os
import re
import shutil
from pathlib import Path

KEPT = 10
"""Folders that are kept; a launch leaves one or two."""
MOST_BYTES = 1024 * 1024
"""Bytes of one file; what is longer is cut at its beginning, where the older part stands."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


class EvidenceFolder:
    """One folder `<launch>-<what>`. A later one of the same name takes its place."""

    def __init__(self, directory: str, name: str) -> None:
        """Names a folder; nothing is made yet."""
        self._directory = Path(directory)
        self.path = self._directory / _UNFIT.sub("_", name)[:200]

    def make(self) -> None:
        """Make it, empty, with mode 0700, and remove all but the newest ones. Raises OSError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.is_symlink() or self.path.is_file():
            self.path.unlink()
        elif self.path.exists():
            shutil.rmtree(self.path)
        self.path.mkdir(mode=0o700)
        prune(str(self._directory))

    def write(self, name: str, text: str) -> None:
        """One file with mode 0600, at most MOST_BYTES of it. Raises OSError."""
        data = text.encode("utf-8", "replace")
        if len(data) > MOST_BYTES:
            data = b"(the beginning is cut off)\n" + data[-MOST_BYTES + 64 :]
        descriptor = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def prune(directory: str, keep: int = KEPT) -> None:
    """Remove all but the newest `keep` folders. One that cannot be removed stays."""
    try:
        folders = [one for one in Path(directory).iterdir() if one.is_dir() and not one.is_symlink()]
        dated = [(one.stat().st_mtime, one) for one in folders]
    except OSError:
        return
    for _, one in sorted(dated, reverse=True)[keep:]:
        shutil.rmtree(one, ignore_errors=True)
