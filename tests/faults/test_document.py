"""docs/faults.md has exactly the rows, columns and cells of the matrix."""

import re

from tests.faults.matrix import CELLS, DAILY, FAULTS, MEANS, PHASES, ROWS, RULES, Absent, Cell, End, entries
from tests.faults.real import REAL
from tests.faults.strike import STRIKES
from tests.faults.table import DOCUMENT, explanation, fake_table, real_table


def without_times(table: str) -> str:
    """The table with each cell's right end alone."""
    ends = "|".join(end.value for end in End)
    return re.sub(rf"\| ({ends}) ·[^|]*(?= \|)", r"| \1", table)


def test_the_tables_in_the_document_are_those_of_the_matrix() -> None:
    text = without_times(DOCUMENT.read_text())
    assert fake_table(lambda cell: cell.end.value) in text
    assert real_table(lambda cell: cell.end.value) in text
    assert explanation() in text


def test_a_cell_that_changes_is_missed_in_the_document() -> None:
    """The comparison is worth something only if it can fail."""
    text = without_times(DOCUMENT.read_text())
    assert fake_table(lambda cell: "other" if cell == CELLS[0] else cell.end.value) not in text


def test_every_cell_of_the_document_was_played() -> None:
    assert "not played" not in DOCUMENT.read_text()


def test_every_pair_of_fault_and_phase_is_a_cell_or_has_its_reason() -> None:
    found = list(entries())
    assert [(one.fault, one.phase) for one in found] == [(fault.id, phase) for fault, _ in ROWS for phase in PHASES]
    assert all(one.reason for one in found if isinstance(one, Absent))
    assert {one.rule for one in found if isinstance(one, Cell)} == set(RULES)
    assert set(MEANS) == set(End)
    assert set(STRIKES) == set(FAULTS)


def test_there_are_as_many_cells_as_were_asked_for() -> None:
    assert len(CELLS) >= len(DAILY) >= 60
    assert len(REAL) >= 15
    assert len({cell.id for cell in CELLS}) == len(CELLS)
