"""Where the headers come from: any machine with Debian's apt has a source for them, whatever apt has read yet."""

import shutil
from pathlib import Path

import pytest

from tests.helpers import cannot_run_here
from tools.uapi import cache, headers, sources


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of sources that this machine's apt believes in, with no index ever fetched."""
    if shutil.which("apt-get") is None:
        cannot_run_here("there is no apt-get")
    listed = tmp_path / "sources.list"
    (tmp_path / "lists" / "partial").mkdir(parents=True)
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{listed}";\nDir::Etc::sourceparts "-";\nDir::State::lists "{tmp_path}/lists";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    return listed


def test_an_apt_that_has_fetched_no_index_yet_still_knows_its_mirror(apt: Path) -> None:
    apt.write_text("deb http://mirror.example/debian bookworm main contrib\n")
    assert list(sources()) == [
        f"deb http://mirror.example/debian {suite} main" for suite in ("bookworm-backports", "stable", "testing")
    ]


def test_updates_and_other_archives_are_no_sources(apt: Path) -> None:
    apt.write_text(
        "deb http://mirror.example/debian bookworm-updates main\n"
        "deb http://mirror.example/debian-security bookworm-security main\n"
        "deb http://other.example/tools stable main\n"
    )
    assert list(sources()) == []


def test_a_machine_without_apt_has_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(sources()) == []


def test_headers_are_those_that_know_xe_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "arcops" / "uapi" / "usr" / "include" / "drm"
    folder.mkdir(parents=True)
    found = headers()
    if found is None:
        for name in ("xe_drm.h", "i915_drm.h", "drm.h"):
            (folder / name).write_text("")
        assert headers() == cache() / "usr" / "include"
    else:
        assert (found / "drm" / "xe_drm.h").is_file()
