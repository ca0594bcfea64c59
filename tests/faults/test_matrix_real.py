"""Cells of the fault matrix on real vLLM: the recovery of one is the start of the next."""

from collections.abc import Generator

import pytest

from tests.faults.matrix import Cell
from tests.faults.play import Chain
from tests.faults.real import REAL, RealStage

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Generator[Chain]:
    here = Chain(lambda: RealStage(tmp_path_factory.mktemp("matrix")), "real")
    yield here
    here.end()


@pytest.mark.parametrize("cell", REAL, ids=[cell.id for cell in REAL])
def test_the_right_state_comes(chain: Chain, cell: Cell) -> None:
    chain.play(cell)
