"""The units' text: one source, in which only the programs' place is put."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from arcops.core.errors import ArcopsError
from arcops.service import files, units
from tests.helpers import cannot_run_here

FILES = ("arcops.service", "arcops@.service", units.SYSTEM_FILE)
SOURCE = Path(__file__).resolve().parents[2] / "units"


@pytest.mark.parametrize("file", FILES)
def test_nothing_but_the_place_of_the_programs_differs_from_the_source(file: str) -> None:
    made = units.wanted(file, Path("/opt/x/bin"))
    first, _, rest = made.partition("\n")
    assert first.startswith(units.MARKER)
    assert units.is_ours(made)
    source = (SOURCE / file).read_text()
    place = "/usr/local/bin" if file == units.SYSTEM_FILE else "%h/.local/bin"
    assert rest.replace("/opt/x/bin/", f"{place}/") == source
    commands = re.findall(r"^Exec\w+=-?(\S+)", rest, re.MULTILINE)
    assert commands
    assert {os.path.dirname(command) for command in commands} == {"/opt/x/bin"}


def test_the_package_brings_the_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert units.shipped() == SOURCE
    inside = tmp_path / "arcops/data/units"
    inside.mkdir(parents=True)
    monkeypatch.setattr("arcops.__file__", str(tmp_path / "arcops/__init__.py"))
    assert units.shipped() == inside
    project = (SOURCE.parent / "pyproject.toml").read_text()
    assert '"units" = "arcops/data/units"' in project


def test_the_programs_are_those_of_this_environment() -> None:
    directory = units.programs()
    assert all(os.access(directory / name, os.X_OK) for name in ("arcops", "arcopsd"))


def test_a_place_that_no_unit_can_name_is_refused() -> None:
    for odd in ('/opt/a"b', "/opt/$HOME", "/opt/a\nb", "/opt/a\\b"):
        with pytest.raises(ArcopsError, match="cannot name programs"):
            units.render("ExecStart=%h/.local/bin/arcopsd\n", Path(odd))


def test_systemd_reads_a_place_with_spaces_and_percents(tmp_path: Path) -> None:
    place = tmp_path / "a b%c"
    place.mkdir()
    for name in ("arcops", "arcopsd"):
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    unit = tmp_path / "arcops.service"
    unit.write_text(units.wanted("arcops.service", place))
    try:
        done = subprocess.run(
            ["systemd-analyze", "--user", "verify", "--man=no", "--recursive-errors=yes", str(unit)],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except FileNotFoundError:
        cannot_run_here("systemd-analyze is not installed")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_is_written_whole_and_readable_for_all(tmp_path: Path) -> None:
    path = tmp_path / "systemd/user/arcops.service"
    files.write(path, "one\n")
    path.chmod(0o600)
    files.write(path, "two\n")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two\n", 0o644)
    assert list(path.parent.iterdir()) == [path]
    (tmp_path / "file").touch()
    with pytest.raises(ArcopsError, match="cannot write"):
        files.write(tmp_path / "file/x/arcops.service", "")


def test_what_is_a_link_is_not_ours(tmp_path: Path) -> None:
    kept = tmp_path / "kept.service"
    kept.write_text(f"{units.MARKER}\n")
    link = tmp_path / "arcops.service"
    link.symlink_to(kept)
    found = files.read(link)
    assert (found.link, found.ours, found.masked) == (str(kept), False, False)
    assert files.read(kept).ours
