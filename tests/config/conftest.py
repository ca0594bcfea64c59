"""A made-up machine for every test that wants one."""

from pathlib import Path

import pytest

from tests.sites import MadeUpSite


@pytest.fixture
def site(tmp_path: Path) -> MadeUpSite:
    return MadeUpSite(tmp_path)
