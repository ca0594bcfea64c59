"""The documents say what the program does: what can be checked by a machine is checked."""

import re
from pathlib import Path

import pytest

from arcops.cli.main import COMMANDS
from arcops.core.errors import ExitCode
from arcops.core.phase import Phase, diagram
from arcops.core.world import Cause

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], key=lambda path: path.relative_to(ROOT).as_posix())


def test_the_phase_diagram_is_the_one_that_the_code_generates() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    shown = text.partition("<!-- phases: generated")[2].partition("```mermaid\n")[2].partition("```")[0]
    assert shown.rstrip("\n") == diagram()


def test_every_phase_stands_in_the_table_with_its_number() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for phase in Phase:
        assert f"| {phase.code} `{phase.value}` |" in text


def test_every_cause_of_a_failure_stands_in_its_table_and_no_other() -> None:
    text = (ROOT / "docs" / "operating.md").read_text()
    table = text.partition("<!-- causes -->")[2].partition("<!-- end of causes -->")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = [cause for cell in first for cause in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(cause.value for cause in Cause)


def test_the_readme_names_every_command_and_exit_code() -> None:
    text = (ROOT / "README.md").read_text()
    for name, _, _ in COMMANDS:
        assert re.search(rf"`arcops {name}\b", text), name
    for code in ExitCode:
        assert re.search(rf"\b{code.value} [a-z]", text), code


def test_every_place_says_the_same_of_how_long_all_tests_take() -> None:
    places = [*DOCUMENTS, ROOT / "Makefile"]
    lines = [line for place in places for line in place.read_text().splitlines()]
    told = [line for line in lines if re.search(r"(make test|^test:).*(minutes|hour)", line)]
    assert len(told) >= 3
    assert {line for line in told if "about an hour" not in line} == set()


def test_the_modules_of_the_machine_are_all_in_the_contract_that_keeps_them_apart() -> None:
    contract = (ROOT / "pyproject.toml").read_text().partition('type = "independence"')[2].partition("]")[0]
    named = set(re.findall(r'"arcops\.machine\.(\w+)"', contract))
    there = {path.stem for path in (ROOT / "arcops" / "machine").iterdir() if (path.name[0] not in "._")}
    assert there - named - {"__init__", "__pycache__"} == {"database", "proc", "sockets"}, "what the others share"


def test_the_readme_does_not_promise_an_exit_code_that_nothing_gives() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.search(r"9 the card is wedged\. Reserved, and not given yet: 124 ", text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for name in re.findall(r"(?:^|`| )make ([a-z]+)\b", document.read_text(), re.MULTILINE):
            assert name in targets, (document.name, name)
