"""The matrix as a document: what is right beside what was measured."""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from tests.faults.matrix import CELLS, MEANS, PHASES, ROWS, RULES, Absent, Cell, entries
from tests.faults.play import Result
from tests.faults.real import REAL

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "faults.md"

Results = Mapping[tuple[str, str, str], Result]
"""By backend, fault and phase."""

_HEAD = """\
# The fault matrix

What strikes, in which phase, and what comes of it. Each cell is a test: `tests/faults/matrix.py` says which state is
right and by which rule, `strike.py` how the fault is done, `stage.py` how the phase is held meanwhile. `make matrix`
plays all cells and writes this document.

In every cell a witness reads `/proc` fifty times a second and takes nobody's word: never do processes of two launches
live at one moment, the lock is held while one lives, nothing of an older launch is left in the end, and what was
ordered is what serves."""

_LEGEND = """\
A cell reads *right end · noticed · recovered*. Noticed: from the strike to the first event in the history that came
of it; where the API server ends by itself some time after the strike (SIGTERM, an exit, the death of EngineCore),
from its end, which a pidfd of the test's own tells. Recovered: from the strike to the event that says that the right
state is there; it includes how long the fault itself takes, the limits that have to run out and the start of the next
backend. A time that is left out: nothing was to be noticed, or the right state was never left. – is a pair that makes
no sense; the reasons are below."""


_NOTE = """\
Deaths are those by SIGKILL and SIGSEGV of the API server, for which the strike is the moment of death. The test holds
the median of the fake's under 200 ms; single figures depend on what else the machine does: real vLLM that decodes
keeps both of its two cores busy."""


def read(path: Path) -> Results:
    """The results of a run; of a cell that was played twice the last one counts."""
    rows = [msgspec.convert(json.loads(line), Result) for line in path.read_text().splitlines()]
    return {(one.backend, one.fault, one.phase): one for one in rows}


def missing(results: Results) -> list[str]:
    """Cells of which the run brought no result: they failed, or were not played."""
    wanted = [("fake", cell) for cell in CELLS] + [("real", cell) for cell in REAL]
    return [f"{backend}: {cell.id}" for backend, cell in wanted if (backend, cell.fault, cell.phase) not in results]


def document(results: Results) -> str:
    """All of docs/faults.md."""
    parts = (
        _HEAD,
        f"## On the fake backend: {len(CELLS)} cells",
        fake_table(lambda cell: _measured(cell, results.get(("fake", cell.fault, cell.phase)))),
        _LEGEND,
        f"## On real vLLM: {len(REAL)} cells",
        real_table(lambda cell: _measured(cell, results.get(("real", cell.fault, cell.phase)))),
        "## Figures",
        _figures(results),
        explanation(),
    )
    return "\n\n".join(parts) + "\n"


def fake_table(show: Callable[[Cell], str]) -> str:
    """Rows are faults, columns are phases."""
    found = iter(entries())
    rows: list[tuple[str, ...]] = []
    for fault, _ in ROWS:
        cells = [next(found) for _ in PHASES]
        rows.append((fault.what, *(show(cell) if isinstance(cell, Cell) else "–" for cell in cells)))
    return _table(("", *PHASES), rows)


def real_table(show: Callable[[Cell], str]) -> str:
    """The same, with the rows and columns that have a cell on real vLLM."""
    phases = [phase for phase in PHASES if any(cell.phase == phase for cell in REAL)]
    there = {(cell.fault, cell.phase): cell for cell in REAL}
    rows: list[tuple[str, ...]] = []
    for fault, _ in ROWS:
        cells = [there.get((fault.id, phase)) for phase in phases]
        if any(cells):
            rows.append((fault.what, *("" if cell is None else show(cell) for cell in cells)))
    return _table(("", *phases), rows)


def explanation() -> str:
    """Everything that depends on the matrix alone."""
    absent: dict[str, list[str]] = {}
    what = {fault.id: fault.what for fault, _ in ROWS}
    for entry in entries():
        if isinstance(entry, Absent):
            absent.setdefault(f"{what[entry.fault]}: {entry.reason}", []).append(entry.phase)
    cells = [cell for cell in entries() if isinstance(cell, Cell)]
    rules = [
        (sentence, ", ".join(sorted({what[cell.fault] for cell in cells if cell.rule == rule})))
        for rule, sentence in RULES.items()
    ]
    parts = (
        "## Right ends",
        _table(("end", "means"), [(end.value, words) for end, words in MEANS.items()]),
        "## Phases",
        _table(("phase", "how it is held"), PHASES.items()),
        "## Faults",
        _table(("fault", "how it is done"), [(fault.what, fault.how) for fault, _ in ROWS]),
        "## Rules",
        _table(("rule", "faults"), rules),
        "## What makes no sense",
        _table(("fault and reason", "phases"), [(words, ", ".join(phases)) for words, phases in absent.items()]),
    )
    return "\n\n".join(parts)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(head)
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def _measured(cell: Cell, result: Result | None) -> str:
    words = [cell.end.value]
    if result is None:
        return f"{cell.end.value} (not played)"
    if result.noticed is not None:
        words.append(f"{result.noticed * 1000:.0f} ms")
    if result.recovered is not None:
        words.append(f"{result.recovered:.1f} s")
    return " · ".join(words)


def _figures(results: Results) -> str:
    lines: list[tuple[str, ...]] = []
    for backend, cells in (("fake", CELLS), ("real", REAL)):
        found = [results.get((backend, cell.fault, cell.phase)) for cell in cells]
        deaths = [one for one in found if one is not None and one.death]
        noticed = [one.noticed for one in deaths if one.noticed is not None]
        anew = [one.recovered for one in deaths if one.end == "anew" and one.recovered is not None]
        if noticed and anew:
            times = (statistics.median(noticed) * 1000, max(noticed) * 1000)
            again = (statistics.median(anew), max(anew))
            lines.append(
                (backend, str(len(noticed)), *(f"{one:.0f} ms" for one in times), *(f"{one:.1f} s" for one in again))
            )
    head = ("", "deaths", "noticed, median", "noticed, worst", "serves again, median", "serves again, worst")
    return f"{_table(head, lines)}\n\n{_NOTE}"
