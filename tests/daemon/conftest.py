"""Fixtures for tests with a real daemon."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.daemon.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Generator[Rig]:
    """An arcops of its own with the fake vLLM, daemon not yet started."""
    with Rig(tmp_path) as one:
        yield one
