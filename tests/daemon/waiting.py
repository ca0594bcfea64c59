"""Waiting inside an event loop: what `tests.helpers.eventually` is outside of one."""

import asyncio
import time
from collections.abc import Callable

import pytest


async def until(condition: Callable[[], bool], within: float = 15.0) -> None:
    """Let the loop turn until `condition()` holds; fail after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within} s: {condition}")
        await asyncio.sleep(0.01)
