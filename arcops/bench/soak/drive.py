"""Runs the clients for their time, or until somebody ends it, and gathers what they and the watch saw."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Final

from arcops.bench.canary import canaries
from arcops.bench.drive import Progress
from arcops.bench.lag import LoopLag
from arcops.bench.server import BenchServer
from arcops.bench.soak.fold import Done, Fold
from arcops.bench.soak.talk import refused_tools, talk
from arcops.bench.soak.watch import LINGER, SETTLE, Watch
from arcops.bench.soak.work import Script, mix_of
from arcops.core.evidence.run import Canary
from arcops.core.evidence.soak import Soak

TELL_EVERY: Final = 2.0
"""Seconds between two lines for the person who waits."""
LOOKS: Final = 200
"""At the server's counters, in a soak of any length but a short one; at least every `SELDOM` seconds, however."""
SELDOM: Final = 5.0
CANARY_PATIENCE: Final = 60.0
"""Seconds for all canaries at the end."""
AFTER_A_FAULT: Final = 1.0
"""Seconds that a client waits after a request that went wrong: a dead server is no reason for thousands."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a person wants."""

    seconds: float
    clients: int
    mix: str
    """As it was typed: `short=4,long=1`."""
    seed: int
    chosen: bool = True
    """A person named the mix: what the server refuses of it goes wrong, and is not left out."""
    linger: float = LINGER
    settle: float = SETTLE

    def options(self) -> Mapping[str, str]:
        """By the names of the options on the command line."""
        return {"for": f"{self.seconds:g}s", "clients": str(self.clients), "mix": self.mix, "seed": str(self.seed)}


async def soak(
    server: BenchServer,
    plan: Plan,
    tell: Progress,
    *,
    ended: asyncio.Event,
    memory: Callable[[], int | None] = lambda: None,
) -> Soak:
    """Do it. `ended` is set where a person wants it to end early. `memory` gives the bytes of the server's processes.

    Raises ArcopsError for a mix that is none; what the server does wrong is in what comes back.
    """
    mix = mix_of(plan.mix)
    left_out = {} if plan.chosen else await _left_out(server, mix, tell)
    mix = {kind: weight for kind, weight in mix.items() if kind not in left_out}
    early = await canaries(server, _deaf, "before")
    crew = _Crew(server, plan, mix)
    watch = Watch(server, lambda: crew.open, memory, plan.linger)
    before = await server.counters()
    watch.begin(before)
    began = server.now()
    every = min(SELDOM, max(0.1, plan.seconds / LOOKS))
    async with LoopLag() as lag, _beside(watch.run(every)), _beside(crew.tell(tell, began)):
        interrupted = await crew.work(began, ended)
    lasted = server.now() - began
    watch.finish()
    tell("waiting for the server to be idle")
    settled, after = await watch.settle(plan.settle)
    watch.take(after, 0)
    late = await _late_canaries(server)
    fold = crew.fold
    return Soak(
        options=plan.options(),
        clients=plan.clients,
        began=began,
        wanted=plan.seconds,
        lasted=lasted,
        interrupted=interrupted,
        spans=fold.spans(),
        problems=fold.problems(),
        troubles=fold.troubles(),
        slowest=fold.slowest(),
        before=before,
        after=after,
        restarts=tuple(watch.restarts),
        looks=watch.looks,
        strays=tuple(watch.strays),
        settled=settled,
        client=lag.load(),
        memory=tuple(watch.memory),
        canaries=(*early, *late),
        left_out=left_out,
    )


class _Crew:
    """The clients, each with a sequence of its own."""

    def __init__(self, server: BenchServer, plan: Plan, mix: Mapping[str, int]) -> None:
        self._server = server
        self._plan = plan
        self._mix = mix
        self._began = 0.0
        self.fold = Fold(plan.seconds)
        self.open = 0

    async def work(self, began: float, ended: asyncio.Event) -> bool:
        """Until the time is over, or `ended`; whether it was ended early. Requests that are under way are left."""
        self._began = began
        clients = [asyncio.create_task(self._client(number)) for number in range(self._plan.clients)]
        try:
            async with asyncio.timeout(self._plan.seconds):
                stop = asyncio.create_task(ended.wait())
                try:
                    await asyncio.wait([stop, *clients], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    stop.cancel()
        except TimeoutError:
            return False
        finally:
            for client in clients:
                client.cancel()
            # What a client raised beside its cancelling is a fault of this program, and is not swallowed.
            results = await asyncio.gather(*clients, return_exceptions=True)
            faults = [one for one in results if isinstance(one, Exception)]
        if faults:
            raise faults[0]
        return True

    async def _client(self, number: int) -> None:
        longest = self._server.facts.max_model_len
        script = Script(self._plan.seed, number, self._mix, longest)
        while True:
            task = script.next()
            await asyncio.sleep(task.think)
            self.open += 1
            try:
                done = await talk(self._server, number, task)
            finally:
                self.open -= 1
            self._take(done)
            if done.problem:
                await asyncio.sleep(AFTER_A_FAULT)

    def _take(self, done: Done) -> None:
        self.fold.take(replace(done, sent=max(0.0, done.sent - self._began)))

    async def tell(self, tell: Progress, began: float) -> None:
        """A line now and then, until cancelled."""
        while True:
            await asyncio.sleep(TELL_EVERY)
            left = max(0.0, self._plan.seconds - (self._server.now() - began))
            tell(f"{self.fold.asked} requests, {self.fold.failed} went wrong, {self.open} open, {left:,.0f} s to go")


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    """`work` goes on until the block ends."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _left_out(server: BenchServer, mix: Mapping[str, int], tell: Progress) -> dict[str, str]:
    """Kinds of work that the server cannot be asked for, and why, which is told."""
    why = await refused_tools(server) if mix.get("tools") else ""
    if why:
        tell(f"tools are left out: {why}")
    return {"tools": why} if why else {}


async def _late_canaries(server: BenchServer) -> tuple[Canary, ...]:
    """None where the server does not come to them: its slots or its cache may be held by what was left."""
    try:
        async with asyncio.timeout(CANARY_PATIENCE):
            return await canaries(server, _deaf, "after")
    except TimeoutError:
        return ()


def _deaf(tokens: tuple[int, ...] | None) -> None:
    """Canaries keep the digests of their answers themselves; a soak keeps no ids."""
