"""What many tests need: waiting for something to become true, free ports, and the rule for skipping."""

import os
import socket
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

T = TypeVar("T")


def eventually(condition: Callable[[], T | None], *, within: float = 30.0, every: float = 0.02, why: str = "") -> T:
    """Poll until `condition()` is truthy and return its value; fail with `why` after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within} s: {why or condition}; last value {value!r}")
        time.sleep(every)


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cannot_run_here(reason: str) -> NoReturn:
    """Skip on a developer's machine; fail where CI would otherwise hide that nothing was tested."""
    if os.environ.get("CI"):
        pytest.fail(f"cannot run in CI: {reason}")
    pytest.skip(reason)
