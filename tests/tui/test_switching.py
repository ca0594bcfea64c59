"""The real program in a real terminal before a real daemon: profiles are seen, compared and switched to."""

import os
import sys
from pathlib import Path

import pytest

from tests.daemon.rig import Rig
from tests.tmux import Terminal, terminal


def select(there: Terminal, name: str) -> None:
    """Move down from the top until this profile's story is shown."""
    there.press("g")
    for _ in range(100):
        text = there.screen()
        if f"── {name} ──" in text:
            return
        there.press("j")
        there.until(lambda now, before=text: now != before, "the selection does not move")
    pytest.fail(f"{name} is not among the profiles:\n{there.screen()}")


def switch(there: Terminal, name: str, *words: str) -> None:
    """Switch to the selected profile; the question says these words."""
    there.press("Enter")
    text = there.until(lambda now: f"Switch to {name}?" in now, "no question")
    assert [word for word in words if word not in text] == [], text
    there.press("y")


@pytest.mark.processes
def test_profiles_are_compared_and_switched_to_and_a_failure_is_explained(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.profile("a-slow-one", extends="target-only", runtime={"env": {"FAKE_VLLM_START_SECONDS": "2"}})
        rig.misbehaving("a-crasher", fail_with="tool_parser")
        rig.start()
        environment = {name: value for name, value in rig.env().items() if os.environ.get(name) != value}
        command = f"sh -c '{sys.executable} -m arcops.cli.main -i {rig.instance} tui; cat'"
        with terminal(command, {**environment, "PYTHONPATH": os.getcwd()}, (100, 40)) as there:
            there.until(lambda text: "○ stopped" in text, "the daemon was not found")
            there.press("2")
            there.until(lambda text: "a-crasher" in text, "no profiles", within=60)
            select(there, "a-slow-one")
            there.until(lambda text: "nothing runs that it could be compared with" in text, "no word of it")
            switch(there, "a-slow-one", "No backend is there.", "has never become", "ready here.")
            there.until(lambda text: "[starting] · checking · serving" in text, "no phases", within=60)
            there.until(lambda text: "● serving a-slow-one" in text, "it does not serve", within=60)
            there.until(lambda text: "differs in nothing" in text, "the running launch is not known")
            select(there, "a-crasher")
            text = there.until(lambda text: "+ FAKE_VLLM_FAIL_WITH" in text, "the difference is not shown")
            assert "~ FAKE_VLLM_START_SECONDS  2 → 0.2" in text
            switch(there, "a-crasher", "No request is open.", "go back to a-slow-one if that fails")
            there.until(lambda text: "order 2 failed: a-crasher" in text, "no word of the failure", within=60)
            text = there.until(lambda text: "● serving a-slow-one" in text, "it did not come back", within=60)
            assert "there is no tool call parser" in text
            there.until(lambda text: "failed" in text and "bad_value" in text, "the last start is not told")
