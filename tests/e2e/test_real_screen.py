"""The screen before real vLLM: what it shows of a known load is true, its keys do what they say, its numbers move."""

import asyncio
import os
import re
import sys
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager

import pytest

from arcops import wire
from tests.daemon.rig import Rig
from tests.e2e.real import START_WITHIN, real_rig
from tests.helpers import eventually
from tests.tmux import Terminal, terminal
from tools.screen_truth import shown
from tools.screen_truth.load import Sent, plan, send
from tools.screen_truth.truth import agrees, quantile, rates_beside, truth

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]

WINDOW = 60.0
OFF = 0.02
"""Share of the truth by which a rate may be wrong. Nothing was counted at an edge of the window: it should be exact."""
ROUNDED = 0.006
"""What rounding to three digits adds to that on the screen."""
LATER = 0.1
"""Seconds by which the client may see everything later than the server, beyond what its way there and back took."""


@pytest.fixture(scope="module")
def arcops(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    """One daemon for all tests of this module: a start of real vLLM takes half a minute."""
    with real_rig(tmp_path_factory.mktemp("real")) as rig:
        rig.start()
        assert rig.arcops("switch", "demo-dflash2", within=START_WITHIN).code == 0
        yield rig


def screen(arcops: Rig, size: tuple[int, int]) -> AbstractContextManager[Terminal]:
    """`arcops tui` in a real terminal."""
    wanted = ("ARCOPS_CONFIG_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "ARCOPS_INSTANCE")
    environment = {name: value for name, value in arcops.env().items() if name in wanted}
    environment |= {"PYTHONPATH": os.getcwd(), "XDG_CONFIG_HOME": str(arcops.root / "home")}
    return terminal(f"{sys.executable} -m arcops.cli.main tui", environment, size)


def counted(arcops: Rig, requests: int, before: float) -> wire.Status | None:
    """The status in which all of that many requests have ended, counted in a window that began before the first."""
    with arcops.client() as client:
        status = client.status(WINDOW)
    rates = status.rates
    if rates.at is None or rates.requests is None or rates.at - rates.seconds > before:
        return None
    return status if round(rates.requests * rates.seconds) == requests else None


def test_what_is_shown_of_a_load_is_what_was_sent(arcops: Rig) -> None:
    """Over a load with quiet before and after it: rates exact, quantiles inside their bounds; on the screen as well."""
    asyncio.run(send(arcops.port, "demo", plan(3.0, 1.0, 99)))  # the first requests of the CPU build take long
    eventually(lambda: not requests_in_window(arcops), within=WINDOW + 60, every=0.5, why="the window did not clear")
    began = time.time()
    sent = asyncio.run(send(arcops.port, "demo", plan(25.0, 2.0, 1)))
    before = eventually(lambda: counted(arcops, len(sent.timings), began), within=20, why="not all were counted")
    assert before is not None
    compare(sent, before)
    with screen(arcops, (100, 30)) as there:
        # The window slides on meanwhile: what is drawn is of a moment between the two statuses.
        text = there.until(lambda text: shown.rate(text, "prefill", "tok/s") is not None, "no rates are drawn", 60)
    with arcops.client() as client:
        after = client.status(WINDOW)
    assert after.rates.seconds <= WINDOW + 1
    for label, unit in (("prefill", "tok/s"), ("decode", "tok/s"), ("finished", "req/s")):
        drawn = shown.rate(text, label, unit)
        name = {"finished": "requests"}.get(label, label)
        bounds = sorted((getattr(before.rates, name), getattr(after.rates, name)))
        assert drawn is not None, text
        assert bounds[0] * (1 - ROUNDED) <= drawn <= bounds[1] * (1 + ROUNDED), (label, drawn, bounds)


def requests_in_window(arcops: Rig) -> bool:
    with arcops.client() as client:
        return bool(client.status(WINDOW).rates.requests)


def compare(sent: Sent, status: wire.Status) -> None:
    """What the daemon says of the load, and what the client saw of it."""
    rates = status.rates
    assert rates.at is not None
    true = truth(sent.timings, rates.at - rates.seconds, rates.at)
    for one in rates_beside(true, rates):
        if one.what != "tokens per step":  # vLLM puts what several steps brought into one chunk if the client is slow
            assert abs(one.off) < OFF, one
    road = quantile(sorted(sent.road), 0.9) or 0.0
    for what, values, told in (
        ("TTFT", true.ttft, rates.ttft),
        ("inter-token", true.inter_token, rates.inter_token),
        ("end to end", true.e2e, rates.e2e),
    ):
        assert told is not None, what
        for q, bounds in ((0.5, told.p50), (0.9, told.p90)):
            assert agrees(values, q, bounds, road + LATER), (what, q, bounds, values, road)
    assert rates.speculation is not None
    assert 1.0 <= rates.speculation.tokens_per_step <= 4.0


def test_the_keys_show_every_view_and_a_switch_is_seen_through_its_phases(arcops: Rig) -> None:
    with screen(arcops, (120, 40)) as there:
        there.until(lambda text: "● serving demo-dflash2" in text, "the screen does not show the backend", 60)
        for key, name in enumerate(("overview", "profiles", "logs", "events", "card", "checks"), start=1):
            there.press(str(key))
            there.until(lambda text, shown=f"[{key} {name}]": shown in text, f"key {key} does not show {name}", 30)
        there.press("1")
        see_numbers_move(arcops, there)
        there.press("2")
        there.until(lambda text: "demo-target-only" in text, "the profiles are not listed", 30)
        select(there, "demo-target-only")
        there.press("Enter")
        there.until(lambda text: "Switch to demo-target-only?" in text, "no question", 30)
        there.press("y")
        there.press("1")
        there.until(lambda text: re.search("[◐◑◒] (starting|stopping|draining)", text) is not None, "no phase", 60)
        there.until(lambda text: "● serving demo-target-only" in text, "the switch was not seen to end", START_WITHIN)
    status = arcops.status()
    assert (status.phase, status.backend and status.backend.profile) == ("serving", "demo-target-only")


def select(there: Terminal, profile: str) -> None:
    """Move down until the details are those of that profile."""
    for _ in range(30):
        if re.search(rf"── {re.escape(profile)} ─", there.screen()):
            return
        there.press("j")
        time.sleep(0.3)  # each key is drawn before the next one is pressed
    pytest.fail(f"{profile} cannot be selected:\n{there.screen()}")


def see_numbers_move(arcops: Rig, there: Terminal) -> None:
    """While requests go through it, the screen shows one number after another."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            asyncio.run(send(arcops.port, "demo", plan(2.0, 3.0, 7)))

    asking = threading.Thread(target=ask)
    asking.start()
    seen: set[float] = set()

    def moves(text: str) -> bool:
        number = shown.rate(text, "decode", "tok/s")
        if number:
            seen.add(number)
        return len(seen) >= 3

    try:
        there.until(moves, "the rate of decoding does not move", 60)
    finally:
        over.set()
        asking.join()
