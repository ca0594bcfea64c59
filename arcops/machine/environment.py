"""The environment that a set-up script (oneAPI's setvars.sh) makes."""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

from arcops.core.errors import InvalidProfileError

# The path comes in as an argument and is shifted away: it is never part of the text that bash parses, and the sourced
# script must not take it for an argument of its own.
_SCRIPT = 'arcops_setup=$1; shift; source "$arcops_setup" >/dev/null || exit; exec /usr/bin/env -0'
_NOISE = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
"""Bash's own, which say nothing about the set-up."""
_ALREADY_RUN = "SETVARS_COMPLETED"
"""setvars.sh refuses to run where an earlier run left this; an operator's login shell may have."""
_RUNNING: set[subprocess.Popen[bytes]] = set()
_LAST_WORDS = 2000
"""Bytes of the script's stderr that are shown."""


def sourced(setup_script: str, base_env: Mapping[str, str], timeout: float) -> dict[str, str]:
    """The environment after `setup_script` was sourced by bash in `base_env`, within `timeout` seconds.

    Raises InvalidProfileError with the script's last words when it fails, ends the shell or takes too long.
    """
    environment = {name: value for name, value in base_env.items() if name != _ALREADY_RUN}
    # Files, not pipes: a daemon that the script leaves behind would hold a pipe open for ever.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _run(setup_script, environment, timeout, out, err)
        if code != 0:
            how = f"takes longer than {timeout:g} s" if code is None else f"fails with exit code {code}"
            raise InvalidProfileError(
                f"the set-up script {setup_script} {how}{_last_words(err)}", hint=_hint(setup_script)
            )
        out.seek(0)
        text = os.fsdecode(out.read())
    if "\0" not in text:
        raise InvalidProfileError(f"the set-up script {setup_script} ends the shell", hint=_hint(setup_script))
    pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs if name not in _NOISE}


def end_all() -> None:
    """SIGKILL to the scripts that run, for whoever ends and does not wait for them."""
    for process in tuple(_RUNNING):
        # Not reaped by anybody else while it is in there, so the number is still its own.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _run(script: str, env: Mapping[str, str], timeout: float, out: IO[bytes], err: IO[bytes]) -> int | None:
    """Exit code of bash, or None when the time was up; then it and its children are killed."""
    try:
        process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", _SCRIPT, "bash", script],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except OSError as error:
        raise InvalidProfileError(f"bash cannot be started for the set-up script: {error.strerror}") from error
    _RUNNING.add(process)
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _RUNNING.discard(process)
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_words(err: IO[bytes]) -> str:
    length = err.seek(0, os.SEEK_END)
    err.seek(max(0, length - _LAST_WORDS))
    lines = [line.strip() for line in err.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {' / '.join(lines[-3:])}" if lines else ""


def _hint(script: str) -> str:
    return f"try it by hand, in bash: source {shlex.quote(script)}"
