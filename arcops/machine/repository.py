"""Which commit a folder is at, by the files of git, or by the layout of the Hugging Face cache; nothing is run."""

import os
import re
from typing import Final

LARGEST: Final = 4 << 20
"""Bytes of a file of references that are read."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"ref: (refs/[\w./@+-]{1,300})")


def commit_of(folder: str) -> str | None:
    """The commit that is checked out in the repository that `folder` is the top of; None where there is none to read.

    What was changed since and not committed it does not tell. A worktree's `.git` is a file that leads elsewhere.
    """
    git = os.path.join(folder, ".git")
    if os.path.isfile(git):
        there = _text(git).partition("gitdir:")[2].strip()
        git = os.path.normpath(os.path.join(folder, there)) if there else git
    head = _text(os.path.join(git, "HEAD")).strip()
    if _COMMIT.fullmatch(head):
        return head
    named = _REFERENCE.fullmatch(head)
    if named is None or ".." in named.group(1):
        return None
    common = _text(os.path.join(git, "commondir")).strip()
    for place in (git, os.path.normpath(os.path.join(git, common)) if common else git):
        commit = _text(os.path.join(place, named.group(1))).strip()
        if _COMMIT.fullmatch(commit):
            return commit
        for line in _text(os.path.join(place, "packed-refs")).splitlines():
            commit, _, name = line.partition(" ")
            if name.strip() == named.group(1) and _COMMIT.fullmatch(commit):
                return commit
    return None


def snapshot_of(folder: str) -> str | None:
    """The commit of a model in the Hugging Face cache: `models--OWNER--NAME/snapshots/COMMIT`."""
    above, commit = os.path.split(os.path.normpath(folder))
    place, snapshots = os.path.split(above)
    there = snapshots == "snapshots" and os.path.basename(place).startswith("models--")
    return commit if there and _COMMIT.fullmatch(commit) else None


def _text(path: str) -> str:
    """A small file; empty where it is not there or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            # No more than there is: a buffer is made as large as is asked for.
            size = min(os.fstat(descriptor).st_size, LARGEST)
            return (file.read(size) or b"").decode("utf-8", "replace")
    except OSError:
        return ""
