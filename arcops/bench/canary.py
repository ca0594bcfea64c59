"""Canaries: questions before and after a run, whose answers have to be the same."""

from collections.abc import Callable
from typing import Final, Literal

from arcops.bench.server import BenchServer
from arcops.core.evidence.run import Canary
from arcops.core.evidence.work import Item, digest

QUESTIONS: Final = (
    "1 2 3 4 5 6",
    "The capital of France is",
    "def add(a, b):\n    return",
)
"""Shorter than a block of the KV cache, so that the second time none of it comes from the prefix cache."""
TOKENS: Final = 24
PATIENCE: Final = 300.0
"""Seconds for one: the first request of a fresh server may compile."""

When = Literal["before", "after"]


async def canaries(
    server: BenchServer, hear: Callable[[tuple[int, ...] | None], object], when: When
) -> tuple[Canary, ...]:
    """Ask all questions, greedily and one after the other; `hear` is told the ids of each answer."""
    return tuple([await _ask(server, hear, question, when) for question in QUESTIONS])


async def _ask(
    server: BenchServer, hear: Callable[[tuple[int, ...] | None], object], question: str, when: When
) -> Canary:
    item = Item(name="canary", kind="canary", prompt=question, max_tokens=TOKENS, to_the_end=True)
    request, tokens, text = await server.ask(item, within=PATIENCE)
    if request.problem:
        return Canary(when, question, None, text, request.problem)
    hear(tokens)
    answer = digest(text.encode()) if tokens is None else request.answer
    return Canary(when, question, answer, text)
