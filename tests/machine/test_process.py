import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from arcops.core.world import ProcessId
from arcops.machine import process
from tests.helpers import eventually
from tests.machine.processes import descendants, hear, python, session_members

pytestmark = pytest.mark.processes
_WAIT = "import sys; print('here', flush=True); sys.stdin.read()"


def test_a_running_process_is_identified_and_alive() -> None:
    with python(_WAIT) as other:
        found = process.identify(other.pid)
        assert found is not None
        assert process.alive(found)


def test_a_reused_pid_is_not_the_process_that_was_meant() -> None:
    with python(_WAIT) as other:
        found = process.identify(other.pid)
        assert found is not None
        earlier = ProcessId(found.pid, found.start - 1)
        assert not process.alive(earlier)
        assert process.open_pidfd(earlier) is None
        assert not process.signal(earlier, signal.SIGKILL)
        assert other.poll() is None


def test_a_zombie_is_not_alive() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    try:
        eventually(lambda: process.identify(child) is None)
    finally:
        os.waitpid(child, 0)


def test_a_signal_reaches_the_process_and_the_pidfd_tells_its_end() -> None:
    with python(_WAIT) as other:
        hear(other)
        found = process.identify(other.pid)
        assert found is not None
        descriptor = process.open_pidfd(found)
        assert descriptor is not None
        try:
            assert process.signal(found, signal.SIGTERM)
            assert other.wait(5) == -signal.SIGTERM
        finally:
            os.close(descriptor)
        assert not process.signal(found, signal.SIGTERM)


def test_a_script_is_found_by_its_first_argument_and_who_only_names_it_is_not(tmp_path: Path) -> None:
    argument = f"arcops-test-{os.getpid()}"
    script = tmp_path / "keeper.py"
    script.write_text(_WAIT)
    with (
        python(_WAIT, "logs", "--launch", argument) as reader,
        subprocess.Popen(
            [sys.executable, "-I", script, argument, "status"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as keeper,
    ):
        hear(reader)
        assert keeper.stdout is not None
        assert keeper.stdout.readline()
        assert [one.pid for one in process.find_script("keeper.py", argument)] == [keeper.pid]
        assert process.find_script("keeper.py", argument[:-1]) == ()
        keeper.communicate()


def test_session_members_and_descendants_are_found() -> None:
    code = (
        "import os, subprocess, sys\n"
        "os.setsid()\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print(child.pid, flush=True); sys.stdin.read(); child.kill()"
    )
    with python(code) as leader:
        child = int(hear(leader))
        assert session_members(leader.pid) == tuple(sorted((leader.pid, child)))
        assert descendants(leader.pid) == (child,)
        assert {leader.pid, child} <= set(descendants(os.getpid()))
        leader.communicate()


def test_processor_time_grows_with_work_and_ignores_the_dead() -> None:
    with python("print(sum(range(3_000_000)), flush=True); input()") as worker:
        hear(worker)
        assert eventually(lambda: process.cpu_seconds([worker.pid])) > 0
        assert process.cpu_seconds([2**22 + 1]) == 0


def test_a_process_is_described_by_command_and_user() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        assert eventually(lambda: process.describe(sleeper.pid)[0] == "sleep")
        sleeper.kill()
    assert process.describe(sleeper.pid) == (None, None)


def test_the_boot_has_one_name() -> None:
    assert process.boot_id() == process.boot_id() != ""
    assert sys.platform == "linux"
