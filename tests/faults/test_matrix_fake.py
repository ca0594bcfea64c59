"""The fault matrix on the fake backend: a test a cell. All cells where results are kept (`make matrix`), else most."""

import os
import statistics
from collections.abc import Generator

import pytest

from tests.daemon.rig import Rig
from tests.faults.matrix import CELLS, DAILY, Cell
from tests.faults.play import RESULTS, Chain
from tests.faults.stage import Stage

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

ENOUGH = 8
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


PLAYED = sorted(CELLS if os.environ.get(RESULTS) else DAILY, key=by_phase)


@pytest.mark.parametrize("cell", PLAYED, ids=[cell.id for cell in PLAYED])
def test_the_right_state_comes(chain: Chain, cell: Cell) -> None:
    chain.play(cell)


def test_a_death_is_noticed_within_a_fifth_of_a_second(chain: Chain) -> None:
    noticed = [one.noticed for one in chain.results if one.death and one.noticed is not None]
    if len(noticed) < ENOUGH:
        pytest.skip(f"only {len(noticed)} deaths were measured: run the whole module")
    assert statistics.median(noticed) < NOTICED_WITHIN, sorted(noticed)
