"""RECORD, METADATA and direct_url.json as installers write them, and as somebody may have written them."""

from pathlib import Path

import pytest

from arcops.machine import wheels
from arcops.machine.wheels import Named, origin_of, parse

SITE = "/venv/lib/python3.12/site-packages"
SHA256 = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
HEX = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_line_names_a_file_with_its_hash_and_size() -> None:
    assert parse(f"vllm/ops.py,{SHA256},0\n", SITE).files == (Named("vllm/ops.py", "sha256", HEX, 0),)


def test_a_path_may_hold_commas_quotes_and_backslashes() -> None:
    found = parse(f'"a,""b"".py",{SHA256},1\na\\c.py,,\n', SITE)
    assert [named.path for named in found.files] == ['a,"b".py', "a/c.py"]


def test_an_absolute_path_below_the_folder_is_one_of_its_own() -> None:
    found = parse(f"{SITE}/six.py,,\n/etc/passwd,,\n./a/../b.py,,\n", SITE)
    assert [named.path for named in found.files] == ["six.py", "/etc/passwd", "b.py"]


@pytest.mark.parametrize(
    "line",
    [
        f",{SHA256},1",
        "a.py,sha256=short,1",
        "a.py,sha256=!!!!DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,1",
        "a.py,crc32=AAAA,1",
        "a\0.py,,",
        "x" * 5000 + ",,",
    ],
)
def test_a_line_that_says_nothing_is_counted(line: str) -> None:
    found = parse(f"{line}\nb.py,,\n", SITE)
    assert (found.strange, [named.path for named in found.files]) == (1, ["b.py"])


def test_a_size_that_is_none_is_unknown() -> None:
    sizes = [parse(f"a.py,{SHA256},{size}", SITE).files[0].size for size in ("", "x", "-1", "²", "9" * 30, "7")]
    assert sizes == [None, None, None, None, None, 7]


def test_a_million_lines_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MOST_FILES", 1000)
    found = parse("".join(f"{number},,\n" for number in range(1001)), SITE)
    assert (found.cut, len(found.files)) == (True, 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"url": "https://me:pw@host/x.whl", "archive_info": {}}', ("https://host/x.whl", None)),
        ('{"url": "https://h/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}}', ("https://h/r at abc", None)),
        ('{"url": "file:///a%20b", "dir_info": {"editable": true}}', ("file:///a%20b (editable)", "/a b")),
        ('{"url": "file:///a", "dir_info": {"editable": false}}', ("file:///a", None)),
        ('{"url": "http://host/a", "dir_info": {"editable": true}}', ("http://host/a (editable)", None)),
        ("[" * 100_000, ("direct_url.json is no JSON", None)),
        ("[]", ("direct_url.json is no table", None)),
        ('{"url": 7}', ("direct_url.json names no URL", None)),
    ],
)
def test_where_a_package_came_from(text: str, expected: tuple[str | None, str | None]) -> None:
    assert origin_of(text) == expected


def test_metadata_is_read_up_to_its_first_empty_line(tmp_path: Path) -> None:
    info = tmp_path / "a_b-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nname: A.b\nVersion: 1.0+xpu\nName: other\n\nVersion: 9\n")
    (found,) = wheels.distributions_in(str(tmp_path))
    assert (found.name, found.version, found.has_record, found.problem) == ("A.b", "1.0+xpu", False, "")


def test_metadata_that_says_nothing_leaves_the_folders_name_and_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a_b-1.0.dist-info").mkdir()
    (tmp_path / "empty-2.dist-info").mkdir()
    (tmp_path / "empty-2.dist-info" / "METADATA").touch()
    first, second = wheels.distributions_in(str(tmp_path))
    assert (first.name, first.version, "cannot be read" in first.problem) == ("a_b", "1.0", True)
    assert (second.name, second.version, "names no version" in second.problem) == ("empty", "2", True)


def test_an_egg_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "PyGObject-3.42.2.egg-info").write_text("Name: PyGObject\nVersion: 3.42.2\n")
    (found,) = wheels.distributions_in(str(tmp_path))
    assert (found.name, found.version, found.tops) == ("PyGObject", "3.42.2", ())


def test_names_at_the_top_that_are_no_names_are_left_out(tmp_path: Path) -> None:
    info = tmp_path / "a-1.egg-info"
    info.mkdir()
    (info / "top_level.txt").write_text("good\n../../etc\n\nalso_good\na b\n")
    (found,) = wheels.distributions_in(str(tmp_path))
    assert found.tops == ("good", "also_good")
