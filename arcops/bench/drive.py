"""A stage: users that ask at the same time, what the server counted meanwhile, and what measuring cost."""

import asyncio
import contextlib
import gc
from collections.abc import Generator, Sequence
from typing import Final, Protocol

from arcops.bench import canary
from arcops.bench.lag import LoopLag
from arcops.bench.server import LONG, BenchServer
from arcops.core.evidence.run import Canary, Request, Stage, Watched
from arcops.core.evidence.work import Item, digest_of_tokens

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the server's gauges, at least."""
LOOK_SHARE: Final = 0.01
"""The most of the time that the server may be busy with looks: its loop writes the page instead of sending tokens."""


class Progress(Protocol):
    """A line for the person who waits."""

    def __call__(self, words: str) -> None: ...


class Heard:
    """Collects the answers of a run, each once."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, ...]] = {}
        """Token ids by their digest."""

    def hear(self, tokens: tuple[int, ...] | None) -> str | None:
        """The digest of an answer's ids, which are kept; None where there are none."""
        if tokens is None:
            return None
        name = digest_of_tokens(tokens)
        self.answers[name] = tokens
        return name


async def stage(
    server: BenchServer,
    heard: Heard,
    *,
    name: str,
    pass_number: int,
    users: Sequence[Sequence[Item]],
    depth: int | None = None,
    warm: bool | None = None,
    within: float = LONG,
) -> Stage:
    """Each user asks its items one after the other; all start at the same moment, each on an open connection.

    `within` is the seconds that one request may take. Never raises for the server's sake. Cancelled, it closes every
    stream and leaves no task.
    """
    made = {item: server.body_of(item) for item in dict.fromkeys(item for items in users for item in items)}
    work = [[(item, made[item]) for item in items] for items in users]
    await server.connect(len(users))
    before = await server.counters()
    watch = _Watch(server)
    start = asyncio.Event()

    async def user(number: int, own: Sequence[tuple[Item, bytes]]) -> list[Request]:
        await start.wait()
        return [await _ask(server, heard, item, number, within, body) for item, body in own]

    with _without_collection():
        async with LoopLag() as lag, asyncio.TaskGroup() as group:
            asking = [group.create_task(user(number, own)) for number, own in enumerate(work)]
            looking = group.create_task(watch.look())
            await asyncio.sleep(0)  # All of them wait at the start.
            start.set()
            await asyncio.wait(asking)
            looking.cancel()
    after = await server.counters()
    return Stage(
        name=name,
        pass_number=pass_number,
        concurrency=len(users),
        depth=depth,
        warm=warm,
        before=before,
        after=after,
        watched=watch.watched(),
        client=lag.load(),
        requests=tuple(request for task in asking for request in task.result()),
    )


async def canaries(server: BenchServer, heard: Heard, when: canary.When) -> tuple[Canary, ...]:
    """The canaries before or after a run."""
    return await canary.canaries(server, heard.hear, when)


async def _ask(server: BenchServer, heard: Heard, item: Item, user: int, within: float, body: bytes) -> Request:
    request, tokens, _ = await server.ask(item, user, within=within, body=body)
    if request.answer is not None:
        heard.hear(tokens)
    return request


class _Watch:
    """Looks at the server's gauges; one that does not answer is not looked at that time."""

    def __init__(self, server: BenchServer) -> None:
        self._server = server
        self._looks = 0
        self._running: float | None = None
        self._waiting: float | None = None
        self._kv_usage: float | None = None

    async def look(self) -> None:
        """Until cancelled."""
        pause = LOOK_EVERY
        while True:
            await asyncio.sleep(pause)
            began = self._server.now()
            seen = await self._server.glance()
            pause = max(LOOK_EVERY, (self._server.now() - began) / LOOK_SHARE)
            if seen is None:
                continue
            self._looks += 1
            self._running = _worse(self._running, seen.running)
            self._waiting = _worse(self._waiting, seen.waiting)
            self._kv_usage = _worse(self._kv_usage, seen.kv_usage)

    def watched(self) -> Watched:
        return Watched(self._looks, self._running, self._waiting, self._kv_usage)


def _worse(known: float | None, seen: float | None) -> float | None:
    return max((one for one in (known, seen) if one is not None), default=None)


@contextlib.contextmanager
def _without_collection() -> Generator[None]:
    """No garbage collection meanwhile: it would hold up the loop for milliseconds, and with it every arrival."""
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
