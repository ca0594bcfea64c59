"""systemd's own programs (systemctl, loginctl, journalctl), each asked with a deadline and without a terminal.

What they say is read in English (LC_ALL), never coloured and never paged. A failure becomes one error for people, with
what to do about it: the words that are looked for are those of systemd 249 to 257.
"""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from arcops.core.errors import ArcopsError
from arcops.machine import proc

ANSWER_WITHIN = 10.0
"""Seconds for a question. A manager answers in some 20 ms, on a busy machine in a second."""
RUN_USER = "/run/user"
_LARGEST = 1024 * 1024
"""Bytes of an answer that are read."""

_NO_BUS = ("no medium found", "failed to connect to", "xdg_runtime_dir", "no such file or directory", "host is down")
_NOT_THERE = ("not found", "could not be found", "does not exist", "not loaded")
_REFUSED = ("interactive authentication", "access denied", "permission denied", "not permitted", "not authorized")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said and returned."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The last line on stderr that does not point elsewhere; what it returned where there is none."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip() and not line.startswith('See "')]
        return lines[-1] if lines else f"exit code {self.code}"

    @property
    def properties(self) -> dict[str, str]:
        """`Key=value` lines, as `show` prints them."""
        return dict(line.split("=", 1) for line in self.out.splitlines() if "=" in line)


class ManagerError(ArcopsError):
    """A program of systemd's is not there, does not answer in time, or refuses."""


class NoUserBusError(ManagerError):
    """There is no way to the user's own manager from here."""


def environment(env: Mapping[str, str], run_user: str = RUN_USER) -> dict[str, str]:
    """`env` as these programs need it. A login without a session (su, cron) has no XDG_RUNTIME_DIR: where this user's
    own is there, it is filled in."""
    made = {**env, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "SYSTEMD_URLIFY": "0"}
    own = f"{run_user}/{os.getuid()}"
    if not made.get("XDG_RUNTIME_DIR") and _is_mine(own):
        made["XDG_RUNTIME_DIR"] = own
    return made


def ask(argv: Sequence[str], env: Mapping[str, str], within: float = ANSWER_WITHIN) -> Answer:
    """Run a program for at most `within` seconds, whatever it answers. Raises ManagerError.

    One that takes longer is killed with everything that it has started.
    """
    # Files, not pipes: what a program leaves behind would hold a pipe open for ever.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _run(argv, env, within, out, err)
        return Answer(tuple(argv), code, _text(out), _text(err))


def tell(argv: Sequence[str], env: Mapping[str, str], within: float = ANSWER_WITHIN) -> Answer:
    """Like `ask`, and anything but exit code 0 is an error. Raises ManagerError with what can be done about it."""
    answer = ask(argv, env, within)
    if answer.code != 0:
        raise error_of(answer, env)
    return answer


def error_of(answer: Answer, env: Mapping[str, str]) -> ManagerError:
    """What a program that failed wanted to say."""
    said = answer.err.lower()
    what = shlex.join(answer.argv)
    message = f"`{what}` fails: {answer.complaint}"
    if "--user" in answer.argv and any(words in said for words in _NO_BUS):
        return NoUserBusError(f"the user's systemd cannot be reached: {answer.complaint}", hint=no_bus_hint(env))
    if any(words in said for words in _REFUSED):
        return ManagerError(message, hint=f"as root: {shlex.join(_for_root(answer.argv))}")
    if any(words in said for words in _NOT_THERE):
        return ManagerError(message, hint="`arcops service install` writes the unit")
    return ManagerError(message)


def no_bus_hint(env: Mapping[str, str], run_user: str = RUN_USER) -> str:
    """How to get to one's own manager from here."""
    uid = os.getuid()
    own, given = f"{run_user}/{uid}", env.get("XDG_RUNTIME_DIR", "")
    user = proc.user_name(uid)
    owner = _owner(given) if given else None
    if owner is not None and owner != uid:
        return (
            f"XDG_RUNTIME_DIR={given} is user {proc.user_name(owner)}'s, and you are {user} (su, sudo): "
            f"log in as {user} (`machinectl shell {user}@`, ssh), or `export XDG_RUNTIME_DIR={own}`"
        )
    if given != own and _is_mine(own):
        return f"log in properly (ssh, a console, `machinectl shell {user}@`), or `export XDG_RUNTIME_DIR={own}`"
    return (
        f"no manager of user {user} runs: log in properly (ssh, a console; su and sudo do not count), "
        f"or as root `loginctl enable-linger {user}`, then `export XDG_RUNTIME_DIR={own}`"
    )


def _for_root(argv: Sequence[str]) -> list[str]:
    return ["sudo", *(word for word in argv if word != "--no-ask-password")]


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _is_mine(path: str) -> bool:
    return _owner(path) == os.getuid()


def _run(argv: Sequence[str], env: Mapping[str, str], within: float, out: IO[bytes], err: IO[bytes]) -> int:
    try:
        process = subprocess.Popen(
            list(argv), env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
    except OSError as error:
        raise ManagerError(f"{argv[0]} cannot be started: {error.strerror}") from error
    try:
        return process.wait(within)
    except subprocess.TimeoutExpired:
        raise ManagerError(f"`{shlex.join(argv)}` does not answer within {within:g} s") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_LARGEST).decode("utf-8", "replace")
