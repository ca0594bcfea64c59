"""Streams of completions at a known pace, each timed where its chunks arrive.

Written on bare sockets: a client that is busy itself would measure itself.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec

ANSWER_WITHIN = 120.0
"""Seconds for one completion."""
USUAL_PROMPT = 775
"""Tokens: the mean of `plan`."""
WALK_EVERY = 0.5
"""Seconds between two looks at how long the way is."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One completion to ask for."""

    after: float
    """Seconds after the beginning of the load."""
    prompt: int
    """Tokens."""
    answer: int
    """Tokens."""


@dataclass(slots=True)
class Timing:
    """What came of one, in seconds since the epoch as the client saw it."""

    sent: float
    prompt: int
    """Tokens, as the server says."""
    chunks: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """When each chunk came, and how many tokens had come with it."""
    done: float = 0.0


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int = 0


class _Chunk(msgspec.Struct, frozen=True):
    usage: _Usage


def plan(seconds: float, per_second: float, seed: int) -> tuple[Ask, ...]:
    """Arrivals at random (exponential gaps), prompts of 50 to 1,500 tokens, answers of 16 to 96: the same for the same
    seed."""
    random = Random(f"{seed}:{per_second}")  # noqa: S311 - no secret
    asks: list[Ask] = []
    at = random.expovariate(per_second)
    while at < seconds:
        asks.append(Ask(at, random.randint(50, 1500), random.randint(16, 96)))
        at += random.expovariate(per_second)
    return tuple(asks)


@dataclass(slots=True)
class Sent:
    """What was sent, and what the way to the server and back took meanwhile."""

    timings: list[Timing] = field(default_factory=list[Timing])
    road: list[float] = field(default_factory=list[float])
    """Seconds of a request like the others that the server refuses, because there is no such model: it is read, and not
    computed. By so much a client sees a first token later than vLLM's own clocks, which start when it was read."""

    def add(self, other: "Sent") -> None:
        self.timings += other.timings
        self.road += other.road


async def send(port: int, model: str, asks: Sequence[Ask], seed: int = 1) -> Sent:
    """Send them all, each when it is due, and wait for the last one. Raises OSError or EOFError if one fails."""
    began = asyncio.get_running_loop().time()

    async def one(number: int, ask: Ask) -> Timing:
        # Tokens of its own: a prefix cache would make less work of the same prompt.
        random = Random(f"{seed}:{number}")  # noqa: S311 - no secret
        prompt = [random.randrange(50, 450) for _ in range(ask.prompt)]
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": ask.answer,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        await asyncio.sleep(max(0.0, began + ask.after - asyncio.get_running_loop().time()))
        async with asyncio.timeout(ANSWER_WITHIN):
            return await _stream(port, msgspec.json.encode(body))

    result = Sent()
    walking = asyncio.ensure_future(_walk(port, result.road))
    try:
        async with asyncio.TaskGroup() as tasks:
            sent = [tasks.create_task(one(number, ask)) for number, ask in enumerate(asks)]
    finally:
        walking.cancel()
    result.timings += [task.result() for task in sent]
    return result


async def _walk(port: int, road: list[float]) -> None:
    body = msgspec.json.encode({"model": "nobody", "prompt": [7] * USUAL_PROMPT, "max_tokens": 1})
    while True:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_head(len(body)) + body)
        await reader.readline()
        road.append(time.monotonic() - began)
        writer.close()
        await asyncio.sleep(WALK_EVERY)


async def _stream(port: int, body: bytes) -> Timing:
    timing = Timing(time.time(), 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        writer.write(_head(len(body)) + body)
        answer = await reader.readline()
        if b" 200 " not in answer:
            raise OSError(f"the server said {answer!r}: {(await reader.read(2000))!r}")
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                _take(timing, msgspec.json.decode(line[6:], type=_Chunk))
            elif line.startswith(b"data: [DONE]"):
                timing.done = timing.chunks[-1][0]
                return timing
    finally:
        writer.close()
    raise EOFError("the stream ended without an end")


def _head(length: int) -> bytes:
    fields = ("Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {length}", "Connection: close")
    return "\r\n".join(("POST /v1/completions HTTP/1.1", *fields, "", "")).encode()


def _take(timing: Timing, chunk: _Chunk) -> None:
    tokens = chunk.usage.completion_tokens
    timing.prompt = chunk.usage.prompt_tokens
    if not timing.chunks or tokens > timing.chunks[-1][1]:
        timing.chunks.append((time.time(), tokens))
