"""A stage: everybody starts at once, what the server counted is beside what came, and nothing is left behind."""

import asyncio
import gc
import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from arcops.bench import drive
from arcops.bench.canary import QUESTIONS
from arcops.bench.drive import Heard, canaries, stage
from arcops.bench.lag import LoopLag
from arcops.bench.server import BenchServer
from arcops.core.evidence.run import Stage
from arcops.core.evidence.work import Item, digest, digest_of_tokens
from tests.bench.raw import STREAM_HEAD, Caller, raw_server, token, usage

METRICS = (Path(__file__).parents[1] / "data" / "metrics" / "mtp_load.txt").read_bytes()
WITHIN = 60.0


class Vllm:
    """Answers each prompt with its own length as the only id, and counts how many ask at once."""

    def __init__(self, meet: int = 1) -> None:
        self.meet = asyncio.Barrier(meet)
        self.order: list[str] = []
        self.gc: list[bool] = []
        self.together = asyncio.Event()
        self.left = 0
        self.hangs = False

    async def __call__(self, caller: Caller) -> None:
        self.order.append(caller.path)
        if caller.path == "/metrics":
            await caller.answer(METRICS)
        elif caller.path == "/version":
            await caller.answer(b"{}")
        else:
            await self.complete(caller)

    async def complete(self, caller: Caller) -> None:
        self.gc.append(gc.isenabled())
        async with asyncio.timeout(WITHIN):
            await self.meet.wait()
        length = len(json.loads(caller.body)["prompt"])
        if self.hangs:
            await caller.say(STREAM_HEAD)
            self.together.set()
            await caller.gone()
            self.left += 1
        else:
            await caller.stream([token(length, finish="length"), usage(length, 1), b"[DONE]"])


def items(user: int, count: int) -> list[Item]:
    return [Item(f"u{user}-{number}", "prose", "x" * (user * 10 + number + 1), 1) for number in range(count)]


async def staged(vllm: Vllm, users: Sequence[Sequence[Item]], heard: Heard | None = None) -> Stage:
    async with raw_server(vllm) as raw, BenchServer(raw.url, model="tiny") as server:
        return await stage(server, heard or Heard(), name="c3", pass_number=1, users=users, depth=7, warm=False)


@pytest.mark.asyncio
async def test_each_user_asks_its_items_in_order_and_all_answers_are_kept() -> None:
    heard = Heard()
    found = await staged(Vllm(), [items(user, 2) for user in range(3)], heard)
    assert [(one.item, one.user) for one in found.requests] == [(f"u{u}-{n}", u) for u in range(3) for n in range(2)]
    assert all(not one.problem for one in found.requests)
    assert heard.answers == {digest_of_tokens((n,)): (n,) for n in (1, 2, 11, 12, 21, 22)}
    assert {one.answer for one in found.requests} == set(heard.answers)
    for first, second in zip(found.requests[::2], found.requests[1::2], strict=True):
        assert first.ended is not None
        assert second.sent >= first.sent + first.ended
    assert (found.name, found.pass_number, found.concurrency, found.depth, found.warm) == ("c3", 1, 3, 7, False)


@pytest.mark.asyncio
async def test_all_users_are_at_the_server_at_once() -> None:
    # The server answers nobody before all 16 have asked.
    found = await staged(Vllm(meet=16), [items(user, 1) for user in range(16)])
    assert all(not one.problem for one in found.requests)
    last_sent = max(one.sent for one in found.requests)
    assert all(last_sent < one.sent + (one.ttft or 0) for one in found.requests)


@pytest.mark.asyncio
async def test_the_counters_frame_the_requests_and_connections_are_open_before() -> None:
    vllm = Vllm()
    found = await staged(vllm, [items(0, 1), items(1, 1)])
    asked = vllm.order.index("/v1/completions")
    assert vllm.order[:asked] == ["/version", "/version", "/metrics"]
    assert vllm.order[-1] == "/metrics"
    assert found.before.at <= min(one.sent for one in found.requests) <= found.after.at
    assert found.before.drafts == found.after.drafts is not None


@pytest.mark.asyncio
async def test_a_failed_request_is_one_of_the_stage_and_its_user_goes_on() -> None:
    vllm = Vllm()

    async def script(caller: Caller) -> None:
        if b"u" in caller.body and b'"prompt":"x",' in caller.body:
            await caller.answer(b'{"error": {"message": "no"}}', "400 Bad Request")
        else:
            await vllm(caller)

    async with raw_server(script) as raw, BenchServer(raw.url, model="tiny") as server:
        found = await stage(server, Heard(), name="c1", pass_number=1, users=[items(0, 3)])
    assert [one.problem for one in found.requests] == ["HTTP 400: no", "", ""]


@pytest.mark.asyncio
async def test_a_server_that_dies_leaves_problems_and_unread_counters() -> None:
    async with raw_server(Vllm()) as raw:
        pass
    async with BenchServer(raw.url, model="tiny") as server:
        found = await stage(server, Heard(), name="c2", pass_number=1, users=[items(0, 2), items(1, 1)])
    assert all("cannot connect" in one.problem for one in found.requests)
    assert found.before.unread
    assert found.after.unread


@pytest.mark.asyncio
async def test_cancelled_it_closes_every_stream_and_leaves_no_task() -> None:
    vllm = Vllm(meet=3)
    vllm.hangs = True
    async with raw_server(vllm) as raw, BenchServer(raw.url, model="tiny") as server:
        users = [items(user, 2) for user in range(3)]
        task = asyncio.create_task(stage(server, Heard(), name="c3", pass_number=1, users=users))
        async with asyncio.timeout(WITHIN):
            await vllm.together.wait()
        before = asyncio.all_tasks()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() < before
        async with asyncio.timeout(WITHIN):
            while vllm.left < 3:  # noqa: ASYNC110 - polling, as everywhere in the tests
                await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert gc.isenabled()


@pytest.mark.asyncio
async def test_nothing_is_collected_while_it_goes_on() -> None:
    vllm = Vllm()
    await staged(vllm, [items(0, 1)])
    assert vllm.gc == [False]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.asyncio
async def test_the_worst_that_was_seen_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "LOOK_EVERY", 0.01)
    pages = [METRICS, b"rubbish", METRICS]
    seen = asyncio.Event()

    async def script(caller: Caller) -> None:
        if caller.path == "/metrics":
            await caller.answer(pages[0] if pages else METRICS, "200 OK" if len(pages) != 1 else "503 Busy")
            pages[:1] = []
            if not pages:
                seen.set()
        elif caller.path == "/version":
            await caller.answer(b"{}")
        else:
            async with asyncio.timeout(WITHIN):
                await seen.wait()
            await caller.stream([token(1, finish="length"), usage(1, 1), b"[DONE]"])

    async with raw_server(script) as raw, BenchServer(raw.url, model="tiny") as server:
        found = await stage(server, Heard(), name="c1", pass_number=1, users=[items(0, 1)])
    assert found.watched.looks >= 1
    assert found.requests[0].problem == ""


@pytest.mark.asyncio
async def test_a_loop_that_is_held_up_is_late_by_as_much() -> None:
    async with LoopLag() as lag:
        await asyncio.sleep(0.05)
        time.sleep(0.2)  # noqa: ASYNC251 - the loop is held up on purpose
        await asyncio.sleep(0.05)
    load = lag.load()
    assert load.lag_worst > 0.15
    assert load.lag_p50 < load.lag_worst
    assert load.seconds > 0.29
    assert 0 <= load.cpu_seconds < load.seconds + 1


@pytest.mark.asyncio
async def test_the_canaries_are_asked_one_by_one_and_their_ids_are_kept() -> None:
    heard = Heard()
    async with raw_server(Vllm()) as raw, BenchServer(raw.url, model="tiny") as server:
        before, after = await canaries(server, heard, "before"), await canaries(server, heard, "after")
    assert [one.question for one in before] == list(QUESTIONS)
    assert [(one.when, one.answer, one.problem) for one in after] == [
        ("after", digest_of_tokens((len(question),)), "") for question in QUESTIONS
    ]
    assert {one.answer for one in before} == set(heard.answers)


@pytest.mark.asyncio
async def test_a_canary_without_ids_is_known_by_its_text_and_one_without_an_answer_is_not() -> None:
    async def script(caller: Caller) -> None:
        if b"France" in caller.body:
            await caller.answer(b"", "500 Oh")
        else:
            await caller.stream([{"choices": [{"text": "four", "finish_reason": "stop"}]}, usage(1, 2), b"[DONE]"])

    async with raw_server(script) as raw, BenchServer(raw.url, model="tiny") as server:
        found = {one.question: one for one in await canaries(server, Heard(), "before")}
    answered, failed = found[QUESTIONS[0]], found[QUESTIONS[1]]
    assert (answered.answer, answered.text) == (digest(b"four"), "four")
    assert (failed.answer, failed.problem) == (None, "HTTP 500")
