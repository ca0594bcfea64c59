"""One question at a time, and no fault of a server or of ours ends the scraping."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from arcops.core.launch import Checks
from arcops.core.metrics import Sample
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.rates import Timed
from arcops.core.rollup import Tally
from arcops.core.world import Activity, AnswerState, Server
from arcops.daemon.clock import Clock
from arcops.daemon.observe import requests_of, served_activity
from arcops.daemon.scraper import Pace, Scraper
from arcops.machine.vllm import ProbeAnswer, VllmServer
from tests.core.simulated import launch


class Slow:
    """Answers each question when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.questions: list[asyncio.Future[ProbeAnswer]] = []
        monkeypatch.setattr(VllmServer, "first_answer", self.first_answer)

    async def first_answer(self, model: str, deadline: float, checks: Checks) -> ProbeAnswer:
        self.questions.append(asyncio.get_running_loop().create_future())
        return await self.questions[-1]


@asynccontextmanager
async def attending() -> AsyncGenerator[tuple[Scraper, asyncio.Event]]:
    woken = asyncio.Event()
    scraper = Scraper(Clock(), woken.set)
    await scraper.attend("L1", launch(), None)
    try:
        yield scraper, woken
    finally:
        await scraper.leave()


async def until(woken: asyncio.Event) -> None:
    async with asyncio.timeout(60.0):
        await woken.wait()
    woken.clear()


@pytest.mark.asyncio
async def test_a_later_question_is_not_judged_by_the_answer_to_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    async with attending() as (scraper, woken):
        scraper.ask("m", 1.0)
        await asyncio.sleep(0)
        scraper.ask("m", 1.0)
        await asyncio.sleep(0)
        assert slow.questions[0].cancelled()
        assert scraper.answer is not None
        assert scraper.answer.state is AnswerState.WAITING
        slow.questions[1].set_result(ProbeAnswer(AnswerState.RIGHT, "it came"))
        await until(woken)
        assert (scraper.answer.state, scraper.answer.detail) == (AnswerState.RIGHT, "it came")


@pytest.mark.asyncio
async def test_a_question_that_raises_is_answered_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    async with attending() as (scraper, woken):
        scraper.ask("m", 1.0)
        await asyncio.sleep(0)
        slow.questions[0].set_exception(RuntimeError("the client has been closed"))
        await until(woken)
        assert scraper.answer is not None
        assert "the client has been closed" in scraper.answer.detail


@pytest.mark.asyncio
async def test_leaving_does_not_swallow_the_cancellation_of_who_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()
    release = asyncio.Event()

    async def stubborn(server: VllmServer, model: str, deadline: float, checks: Checks) -> ProbeAnswer:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            await release.wait()
        raise AssertionError

    monkeypatch.setattr(VllmServer, "first_answer", stubborn)
    scraper = Scraper(Clock(), lambda: None)
    await scraper.attend("L1", launch(), None)
    scraper.ask("m", 1.0)
    await asked.wait()
    leaving = asyncio.create_task(scraper.leave())
    await cancelled.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    release.set()
    await scraper.leave()


@pytest.mark.parametrize("pace", [Pace.RISING, Pace.STEADY])
@pytest.mark.asyncio
async def test_a_fault_that_nobody_thought_of_is_an_absence_and_the_scraping_goes_on(
    monkeypatch: pytest.MonkeyPatch, pace: Pace
) -> None:
    """httpx raises a RuntimeError for a client that was closed meanwhile."""

    async def broken(*_: object) -> Reading[Server]:
        raise RuntimeError("the client has been closed")

    monkeypatch.setattr(VllmServer, "accepts", broken)
    monkeypatch.setattr(VllmServer, "metrics", broken)
    async with attending() as (scraper, woken):
        scraper.set_pace(pace)
        running = asyncio.create_task(scraper.run())
        await until(woken)
        seen = scraper.server if pace is Pace.RISING else scraper.sample
        assert isinstance(seen, Unknown)
        assert "the client has been closed" in seen.reason
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


@pytest.mark.asyncio
async def test_a_page_without_a_number_of_vllms_is_a_sign_of_life_that_says_nothing_of_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--disable-log-stats` leaves such a page: nothing is wrong with the backend, and nothing can be read of it."""
    pages: list[Reading[str]] = []

    async def metrics(self: VllmServer) -> Reading[str]:
        return pages[0]

    monkeypatch.setattr(VllmServer, "metrics", metrics)
    async with attending() as (scraper, woken):
        running = asyncio.create_task(scraper.run())
        for page, activity in (
            (Known("python_info 1\n", 5.0), Known(Activity(0, 0.0, 0.0, 0.0), 5.0)),
            (Unknown("no answer", 6.0), Unknown("no answer", 6.0)),
        ):
            pages[:] = [page]
            woken.clear()
            scraper.set_pace(Pace.OFF)
            scraper.set_pace(Pace.STEADY)
            while scraper.sample.at != page.at:
                await until(woken)
            assert served_activity(scraper) == activity
            assert isinstance(requests_of(scraper.sample), Unknown)
        running.cancel()
        await asyncio.wait([running])


def test_windows_and_plots_reach_back_to_what_an_earlier_supervisor_had_scraped() -> None:
    now = 10_000.0
    scraper = Scraper(Clock(monotonic=lambda: now, wall=lambda: now + 1e9), lambda: None)
    scrapes = [
        Timed(now - 3_600.0 + at, Sample(running=1.0, generation_tokens=7.0 * at), "L1") for at in range(0, 3_600, 5)
    ]
    second = Tally(
        launch_id="L1", profile="p", phase="serving", at=1e9 + now - 2.0, seconds=2.0, generation_tokens=14.0
    )
    scraper.resume(scrapes, [second])
    hour = scraper.rates(3_600.0)
    assert (hour.decode, hour.seconds) == (7.0, 3_595.0)
    minutes = scraper.rates(300.0)
    assert (minutes.decode, minutes.seconds) == (7.0, 300.0)
    (plotted,) = scraper.points
    assert (plotted.at, plotted.decode, plotted.running) == (now - 2.0, 7.0, None)


def test_what_turns_up_late_is_put_before_what_was_scraped_meanwhile_and_never_after_it() -> None:
    scraper = Scraper(Clock(monotonic=lambda: 100.0, wall=lambda: 1e9), lambda: None)
    scrapes = [Timed(float(at), Sample(running=1.0, generation_tokens=7.0 * at), "L1") for at in (10, 20, 30)]
    scraper.resume(scrapes[2:], [])
    scraper.resume(scrapes, [])
    got = scraper.rates(60.0)
    assert (got.seconds, got.decode) == (20.0, 7.0)
