"""What launches have left is swept: all that can be, whatever one of them has against it."""

import errno
import os
from pathlib import Path

import pytest

from arcops.daemon.leavings import sweep
from arcops.machine import launch_folder


def test_one_folder_that_cannot_be_removed_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (tmp_path / f"2027011508000{number}-ab12" for number in range(3))
    for one in (first, second, third):
        one.mkdir()
    remove = launch_folder.remove

    def refuses(folder: str) -> None:
        if folder == str(first):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), folder)
        remove(folder)

    monkeypatch.setattr(launch_folder, "remove", refuses)
    with pytest.raises(OSError, match="busy"):
        list(sweep(str(tmp_path), lambda: third.name))
    assert [one.exists() for one in (first, second, third)] == [True, False, True]
