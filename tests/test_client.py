"""The road to the daemon, where nobody is at its end."""

import gc
import socket
import warnings
from pathlib import Path

import pytest

from arcops.client import Client
from arcops.core.errors import NoDaemonError


def test_a_socket_at_which_nobody_listens_is_closed_at_once(tmp_path: Path) -> None:
    place = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(place))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with Client(place) as client, pytest.raises(NoDaemonError, match="no daemon answers"):
            client.status()
        gc.collect()
    assert [str(one.message) for one in said] == []
