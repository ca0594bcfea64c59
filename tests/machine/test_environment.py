import os
import signal
import subprocess
from pathlib import Path

import pytest

from arcops.core.errors import ExitCode, InvalidProfileError
from arcops.machine.environment import sourced
from tests.helpers import eventually

pytestmark = pytest.mark.processes
BASE = {"PATH": os.environ["PATH"], "HOME": "/home/x"}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    # A name that would do harm in a shell string.
    return tmp_path / "set up $(touch harm) 'x'.sh"


def test_the_scripts_environment_is_returned_and_its_chatter_is_not(script: Path) -> None:
    script.write_text('echo chatter; export ONE=1; export MULTI="a\nb=c"; HIDDEN=2; export HOME=/else')
    found = sourced(str(script), BASE, 5)
    assert found == {"PATH": BASE["PATH"], "HOME": "/else", "ONE": "1", "MULTI": "a\nb=c"}


def test_the_script_gets_no_arguments_and_only_the_given_environment(script: Path) -> None:
    script.write_text('export COUNT=$#; export SEEN="${SECRET-none}"')
    found = sourced(str(script), BASE, 5)
    assert (found["COUNT"], found["SEEN"]) == ("0", "none")


def test_a_script_that_refuses_to_run_twice_runs(script: Path) -> None:
    script.write_text('[ "${SETVARS_COMPLETED:-}" = 1 ] && return 3; export SETVARS_COMPLETED=1; export ONE=1')
    assert sourced(str(script), {**BASE, "SETVARS_COMPLETED": "1"}, 5)["ONE"] == "1"


def test_a_failing_script_is_quoted(script: Path) -> None:
    script.write_text("echo first >&2; echo 'no compiler here' >&2; return 4")
    with pytest.raises(InvalidProfileError, match="fails with exit code 4: first / no compiler here") as caught:
        sourced(str(script), BASE, 5)
    assert caught.value.exit_code is ExitCode.INVALID


def test_a_script_that_is_not_there_is_an_error_in_words(script: Path) -> None:
    with pytest.raises(InvalidProfileError, match="No such file"):
        sourced(str(script), BASE, 5)


def test_a_script_that_ends_the_shell_is_an_error_in_words(script: Path) -> None:
    script.write_text("exit 0")
    with pytest.raises(InvalidProfileError, match="ends the shell"):
        sourced(str(script), BASE, 5)


def test_a_script_that_hangs_is_ended_with_its_children(script: Path, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script.write_text(f"sleep 600 & echo $! > '{mark}'; echo waiting >&2; wait")
    with pytest.raises(InvalidProfileError, match=r"takes longer than 0\.5 s: waiting"):
        sourced(str(script), BASE, 0.5)
    child = mark.read_text().strip()
    eventually(
        lambda: (
            subprocess.run(["ps", "-p", child, "-o", "stat="], capture_output=True, check=False).stdout[:1]
            in (b"", b"Z")
        )
    )


def test_a_process_that_the_script_leaves_behind_does_not_hold_us_up(script: Path) -> None:
    script.write_text("sleep 60 & export LEFT=$!")
    left = int(sourced(str(script), BASE, 5)["LEFT"])
    os.kill(left, signal.SIGKILL)


def test_without_bash_the_error_says_so(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InvalidProfileError, match="bash cannot be started"):
        sourced(str(script), {"PATH": "/nowhere"}, 5)
