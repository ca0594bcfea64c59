"""The fault matrix on the fake backend: a test a cell."""

import statistics
from collections.abc import Generator

import pytest

from tests.daemon.rig import Rig
from tests.faults.matrix import CELLS, Cell
from tests.faults.play import Chain
from tests.faults.stage import Stage

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

ENOUGH = 20
"""Deaths from which a median says something."""
NOTICED_WITHIN = 0.2
"""Seconds, of the median: a machine that stands still for a moment makes single ones late."""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Generator[Chain]:
    here = Chain(lambda: Stage(Rig(tmp_path_factory.mktemp("matrix"))), "fake")
    yield here
    here.end()


def by_phase(cell: Cell) -> str:
    return cell.phase


@pytest.mark.parametrize("cell", sorted(CELLS, key=by_phase), ids=[cell.id for cell in sorted(CELLS, key=by_phase)])
def test_the_right_state_comes(chain: Chain, cell: Cell) -> None:
    chain.play(cell)


def test_a_death_is_noticed_within_a_fifth_of_a_second(chain: Chain) -> None:
    noticed = [one.noticed for one in chain.results if one.death and one.noticed is not None]
    if len(noticed) < ENOUGH:
        pytest.skip(f"only {len(noticed)} deaths were measured: run the whole module")
    assert statistics.median(noticed) < NOTICED_WITHIN, sorted(noticed)
