"""The screen for a long time before a busy server, the daemon killed again and again under it.

It lasts ARCOPS_SOAK_SCREEN seconds (40); from five minutes on the daemon is restarted ten times, else three times. The
figures are printed, and written to the file that ARCOPS_SOAK_FIGURES names.
"""

import json
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean

import httpx
import pytest

from tests.daemon.rig import Rig
from tests.tmux import Terminal, terminal

SECONDS = float(os.environ.get("ARCOPS_SOAK_SCREEN", "40"))
FIGURES = os.environ.get("ARCOPS_SOAK_FIGURES")
RESTARTS = 10 if SECONDS >= 300 else 3
AWAY = 4.0
"""Seconds for which the screen is watched while there is no daemon."""
FLAT = 1.1 if SECONDS >= 300 else 1.25
"""The mean of the last third over that of the second: above it the screen's memory grows. A short run is still warm."""
SIZE = (100, 30)
WITHIN = 60.0
PAGE = resource.getpagesize()
NUMBERS = re.compile(r"^ (?:running|finished|TTFT|inter-token|acceptance) .*$", re.MULTILINE)
"""Lines of the screen that hold the server's numbers."""


@contextmanager
def busy(rig: Rig) -> Generator[list[int]]:
    """Requests one after another, from two clients; gives a list that grows with each that was answered."""
    over = threading.Event()
    answered: list[int] = []

    def ask() -> None:
        while not over.wait(0.1):
            with suppress(httpx.HTTPError):
                rig.complete(tokens=48)
                answered.append(1)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


def screen_pid(there: Terminal) -> int:
    """The program below the shell in the pane."""
    shell = int(there.tmux("display-message", "-p", "-t", "it", "#{pane_pid}"))
    return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])


def resident(pid: int) -> int:
    """Bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def looks(there: Terminal, label: str) -> str:
    """The line with this label, with the escape sequences that colour it."""
    lines = there.tmux("capture-pane", "-p", "-e", "-t", "it").splitlines()
    return next((line for line in lines if label in line), "")


def numbers(text: str) -> list[str]:
    return NUMBERS.findall(text)


def colours(line: str) -> set[str]:
    """Of the text."""
    return set(re.findall(r"\x1b\[(38;[\d;]*)m", line))


def see_it_go_and_come(rig: Rig, there: Terminal) -> None:
    """Kill the daemon; until it is back, nothing on the screen may look live."""
    there.until(lambda text: "● serving" in text and "TTFT" in text, "it is not live", WITHIN)
    live = colours(looks(there, "TTFT"))
    assert live, "without colours nothing could be seen to be dimmed"
    rig.kill_daemon()
    away = there.until(lambda text: "not connected" in text, "the daemon's death went unnoticed", WITHIN)
    until = time.monotonic() + AWAY
    while time.monotonic() < until:
        text = there.screen()
        if "not connected" not in text:
            pytest.fail(f"it looks connected, without a daemon:\n{text}")
        assert "●" not in text, f"it looks like serving now:\n{text}"
        assert "last known" in text
        assert numbers(text) == numbers(away), "a number moved, and nobody told it"
        assert live - colours(looks(there, "TTFT")), "what is old is drawn in the colours of what is new"
        time.sleep(0.5)
    rig.start()
    there.until(lambda text: "not connected" not in text and "● serving" in text, "it did not come back", WITHIN)


@pytest.mark.processes
@pytest.mark.timeout(300 + 3 * SECONDS)
def test_memory_is_flat_and_nothing_old_looks_live_while_the_daemon_comes_and_goes(tmp_path: Path) -> None:
    with Rig(tmp_path, instance="soak") as rig:
        rig.start()
        assert rig.arcops("switch", "dflash2").code == 0
        wanted = ("ARCOPS_CONFIG_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "ARCOPS_INSTANCE")
        environment = {name: value for name, value in rig.env().items() if name in wanted}
        environment |= {"PYTHONPATH": os.getcwd(), "XDG_CONFIG_HOME": str(tmp_path / "home"), "NO_COLOR": ""}
        command = f"sh -c '{sys.executable} -m arcops.cli.main tui; echo left with $?; cat'"
        with busy(rig) as answered, terminal(command, environment, SIZE) as there:
            there.until(lambda text: "● serving" in text, "the screen does not show the server", WITHIN)
            pid = screen_pid(there)
            sizes, began, restarts = [resident(pid)], time.monotonic(), 0
            while (passed := time.monotonic() - began) < SECONDS:
                if passed > (restarts + 1) * SECONDS / (RESTARTS + 1) and restarts < RESTARTS:
                    see_it_go_and_come(rig, there)
                    restarts += 1
                sizes.append(resident(pid))
                time.sleep(min(1.0, SECONDS / 100))
            last = there.until(lambda text: "● serving" in text, "it is not live at the end", WITHIN)
            assert screen_pid(there) == pid, "it was not the same program all the time"
            there.press("q")
            there.until(
                lambda text: "left with 0" in text, f"it did not end well; before that it showed\n{last}", WITHIN
            )
        third = len(sizes) // 3
        earlier, later = fmean(sizes[third : 2 * third]), fmean(sizes[2 * third :])
        tell(
            {
                "with": "the screen before a busy fake vLLM",
                "seconds": round(time.monotonic() - began),
                "restarts": restarts,
                "requests": len(answered),
                "resident_mb": [round(size / 1e6, 1) for size in (sizes[0], earlier, later, max(sizes))],
                "ratio": round(later / earlier, 4),
            }
        )
        assert restarts == RESTARTS
        assert answered
        assert later / earlier < FLAT, sizes[:: max(1, len(sizes) // 20)]


def tell(figures: dict[str, object]) -> None:
    text = json.dumps(figures)
    print(text)
    if FIGURES:
        with Path(FIGURES).open("a") as file:
            file.write(f"{text}\n")
