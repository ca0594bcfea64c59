"""Runs many made-up inputs against one reader, and holds it to its word: its declared errors, its time, its memory.

Every input has a number, and comes from (name, seed, number) alone: the failure that is printed can be repeated.
ARCOPS_FUZZ_SEED tries another road, ARCOPS_FUZZ_INPUTS makes it longer.
"""

import os
import resource
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from random import Random
from time import process_time
from typing import TypeVar

import pytest

T = TypeVar("T")

INPUTS = int(os.environ.get("ARCOPS_FUZZ_INPUTS", "10000"))
SEED = int(os.environ.get("ARCOPS_FUZZ_SEED", "4711"))
LONGEST = 1.0
"""Seconds of processor time for one input."""
MEMORY = 48 * 1024 * 1024
"""Bytes at the worst moment of all inputs together, beyond what was there before."""
TRACED_EVERY = 20
_SHOWN = 2_000


def fuzz(
    name: str,
    make: Callable[[Random], T],
    feed: Callable[[T], object],
    *,
    declared: tuple[type[Exception], ...] = (),
    memory: int = MEMORY,
    share: float = 1.0,
) -> None:
    """Feed INPUTS (or a `share` of them) inputs; fail with the first one that breaks the word."""
    one = make(Random(f"{name}:{SEED}:warm"))
    with suppress(*declared):
        feed(one)  # what is loaded or cached once is nobody's leak
    inputs = int(INPUTS * share)
    resident = _most_resident()
    for number in range(inputs):
        one = make(Random(f"{name}:{SEED}:{number}"))
        before = process_time()
        try:
            feed(one)
        except declared:
            pass
        except Exception as error:  # noqa: BLE001 - anything else is what is looked for
            pytest.fail(f"{_which(name, number, one)}\n{type(error).__name__}: {error}", pytrace=False)
        took = process_time() - before
        if took > LONGEST:
            pytest.fail(f"{_which(name, number, one)}\ntook {took:.2f} s of processor time", pytrace=False)
    grown = _most_resident() - resident
    assert grown < 2 * memory, f"{name} (seed {SEED}): {grown / 2**20:.1f} MiB more resident at the worst moment"
    peak = _most_allocated(name, make, feed, declared, inputs)
    assert peak < memory, f"{name} (seed {SEED}): {peak / 2**20:.1f} MiB allocated at the worst moment"


def _most_allocated(
    name: str,
    make: Callable[[Random], T],
    feed: Callable[[T], object],
    declared: tuple[type[Exception], ...],
    inputs: int,
) -> int:
    """Bytes at the worst moment of every TRACED_EVERY-th input: tracing costs several times the work itself."""
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        for number in range(0, inputs, TRACED_EVERY):
            with suppress(*declared):
                feed(make(Random(f"{name}:{SEED}:{number}")))
        return tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()


def _most_resident() -> int:
    """Bytes that this process has had resident at most, so far (getrusage(2) counts KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _which(name: str, number: int, one: object) -> str:
    return f"input {number} of {name}, seed {SEED}: {repr(one)[:_SHOWN]}"
