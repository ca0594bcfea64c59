"""Which commit a folder is at, by git's files and by the layout of a model cache."""

from pathlib import Path

import pytest

from arcops.machine.repository import commit_of, snapshot_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, head: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head)
    return folder


def test_a_commit_that_is_checked_out_by_itself(tmp_path: Path) -> None:
    assert commit_of(str(git(tmp_path, f"{COMMIT}\n"))) == COMMIT


def test_a_branch_in_a_file_of_its_own_or_packed(tmp_path: Path) -> None:
    loose = git(tmp_path / "a", "ref: refs/heads/main\n")
    (loose / ".git/refs/heads").mkdir(parents=True)
    (loose / ".git/refs/heads/main").write_text(f"{COMMIT}\n")
    packed = git(tmp_path / "b", "ref: refs/heads/main\n")
    (packed / ".git/packed-refs").write_text(f"# pack-refs\n{'f' * 40} refs/heads/other\n{COMMIT} refs/heads/main\n")
    assert (commit_of(str(loose)), commit_of(str(packed))) == (COMMIT, COMMIT)


def test_a_worktree_of_a_repository_elsewhere(tmp_path: Path) -> None:
    main = git(tmp_path / "main", "ref: refs/heads/main\n")
    (main / ".git/packed-refs").write_text(f"{COMMIT} refs/heads/side\n")
    (main / ".git/worktrees/side").mkdir(parents=True)
    (main / ".git/worktrees/side/HEAD").write_text("ref: refs/heads/side\n")
    (main / ".git/worktrees/side/commondir").write_text("../..\n")
    side = tmp_path / "side"
    side.mkdir()
    (side / ".git").write_text(f"gitdir: {main}/.git/worktrees/side\n")
    assert commit_of(str(side)) == COMMIT


@pytest.mark.parametrize(
    "head", ["", "ref: refs/heads/../../../etc/passwd", "ref: refs/heads/gone", "nonsense", "f" * 39]
)
def test_what_names_no_commit_is_unknown(tmp_path: Path, head: str) -> None:
    assert commit_of(str(git(tmp_path, head))) is None


def test_a_folder_without_a_repository_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(str(tmp_path)) is None


def test_a_snapshot_of_a_model_cache_is_its_commit() -> None:
    assert snapshot_of(f"/cache/hub/models--amd--Qwen/snapshots/{COMMIT}/") == COMMIT
    assert snapshot_of(f"/cache/hub/amd--Qwen/snapshots/{COMMIT}") is None
    assert snapshot_of("/cache/hub/models--amd--Qwen/snapshots/main") is None
