"""What all fuzzing needs."""

import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture
def memory(tmp_path: Path) -> Generator[Path]:
    """A folder in memory where there is one: ten thousand files cut short and written anew are much to a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="arcops-fuzz-", dir="/dev/shm") as folder:
        yield Path(folder)
