"""`arcops bench report`, run on made-up records."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from arcops.config.paths import Paths
from arcops.core.errors import ExitCode
from tests.cli.conftest import Ran
from tests.evidence import made
from tests.sites import MadeUpSite

Arcops = Callable[..., Ran]


@pytest.fixture
def digest(site: MadeUpSite) -> str:
    """Of a record of the instance."""
    record = made.record(made.ladder((1, 2)))
    return made.stored(Paths.of("main", site.env).records, record).digest.removeprefix("sha256:")


def test_a_report_is_written_for_a_record_that_its_digest_names(digest: str, arcops: Arcops, tmp_path: Path) -> None:
    ran = arcops("bench", "report", digest[:12], "-o", str(tmp_path / "out.html"), "--json")
    assert ran.code == ExitCode.DONE, ran.err
    told = json.loads(ran.out)
    assert told["records"] == [f"sha256:{digest}"]
    content = Path(told["path"]).read_bytes()
    assert len(content) == told["bytes"]
    assert digest.encode() in content
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".tmp"] == []


def test_a_folder_gets_a_file_that_is_named_like_the_record(digest: str, arcops: Arcops, tmp_path: Path) -> None:
    ran = arcops("bench", "report", digest[:12], "-o", str(tmp_path))
    assert ran.code == ExitCode.DONE, ran.err
    (found,) = tmp_path.glob("ladder-*.html")
    assert digest[:12] in found.name
    assert found.name in ran.out


def test_what_is_there_is_overwritten_only_by_force(digest: str, arcops: Arcops, tmp_path: Path) -> None:
    there = tmp_path / "out.html"
    there.write_text("mine")
    ran = arcops("bench", "report", digest[:12], "-o", str(there))
    assert ran.code == ExitCode.USAGE
    assert there.read_text() == "mine"
    assert arcops("bench", "report", digest[:12], "-o", str(there), "--force").code == ExitCode.DONE
    assert there.read_text().startswith("<!doctype html>")


def test_a_dash_is_stdout(digest: str, arcops: Arcops) -> None:
    ran = arcops("bench", "report", digest[:12], "-o", "-")
    assert ran.out.startswith("<!doctype html>")
    assert ran.out.endswith("</html>\n")


def test_a_place_that_cannot_be_written_is_one_sentence(digest: str, arcops: Arcops, tmp_path: Path) -> None:
    ran = arcops("bench", "report", digest[:12], "-o", str(tmp_path / "no" / "out.html"))
    assert ran.code == ExitCode.FAILED
    assert "cannot write" in ran.err


def test_a_record_that_was_edited_is_refused(arcops: Arcops, tmp_path: Path) -> None:
    stored = made.stored(tmp_path, made.record(made.ladder((1,))))
    edited = tmp_path / "edited.json"
    edited.write_bytes(stored.path.read_bytes().replace(b'"tiny"', b'"huge"'))
    ran = arcops("bench", "report", str(edited), "-o", str(tmp_path / "out.html"))
    assert ran.code == ExitCode.FAILED
    assert "edited" in ran.err
    assert not (tmp_path / "out.html").exists()


def test_what_is_no_file_is_never_replaced_by_one(digest: str, arcops: Arcops, tmp_path: Path) -> None:
    device = tmp_path / "device"
    os.mkfifo(device)
    ran = arcops("bench", "report", digest[:12], "-o", str(device), "--force")
    assert (ran.code, "is no file" in ran.err) == (ExitCode.USAGE, True)
    assert device.is_fifo()
