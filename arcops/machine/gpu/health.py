"""Has a card compute something, in the runtime's own Python and in a child that can be left where it hangs.

The cheap question (`answer`) asks the driver for a sign of life, and touches no engine: a card whose compute engine
hangs answers it. This one multiplies two small matrices there. It takes as long as importing torch does, some seconds,
and some hundred MiB of the card for that time.
"""

import os
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from arcops.core.cards.health import Health, Verdict
from arcops.machine import proc
from arcops.machine.gpu.health_words import End, Trial, judged
from arcops.machine.gpu.question import remedy_of

SCRIPT = os.path.join(os.path.dirname(__file__), "health_script.py")
LOADS_WITHIN = 120.0
"""Seconds for torch to be imported: two from a warm disk, half a minute and more from a cold one."""
STEP_WITHIN = 60.0
"""Seconds for each step on a card: milliseconds, and some seconds where its code is compiled first."""
KILLED_WITHIN = 5.0
"""Seconds that a child may outlive SIGKILL; one that hangs in a driver does so for good."""
_SPARE = 30
"""Seconds after its own deadline at which a child ends itself: whoever started it may have died."""
_MOST = 64 * 1024
"""Bytes of a child's words; the script has less than one KiB."""
_STEPS = (b"torch ", b"cards ", b"try ", b"right ")
_KINDS: Mapping[str, str] = {"xe": "xpu", "i915": "xpu", "nvidia": "cuda", "amdgpu": "cuda"}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tried: the cards of one launch, as its runtime sees them."""

    vllm: str
    """The executable; the Python beside it has the torch."""
    cards: tuple[str, ...]
    """Addresses, in the order of the launch; empty for the processor."""
    drivers: tuple[str | None, ...]
    """Of each card."""
    environment: Mapping[str, str]
    """The launch's own, with the mask that hides every other card."""

    @property
    def kind(self) -> str | None:
        """What torch calls them; None for cards of several kinds, or of a driver that torch knows nothing of."""
        if not self.cards:
            return "cpu"
        kinds = {_KINDS.get(driver or "") for driver in self.drivers}
        return kinds.pop() if len(kinds) == 1 else None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited. Seconds."""

    loads: float = LOADS_WITHIN
    step: float = STEP_WITHIN
    killed: float = KILLED_WITHIN


class Examiner:
    """Tries cards, one trial at a time. From any thread: whoever comes second waits for the first.

    A child that outlives SIGKILL is left, and none is started for its cards while it is there: each would hang as well.
    It is found by its command line, so that another supervisor, or the doctor, leaves it alone too.
    """

    def __init__(self, patience: Patience | None = None, script: str = SCRIPT) -> None:
        self._patience = patience or Patience()
        self._script = script
        self._trying = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._left: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> frozenset[int]:
        """Of the child that is at work now: what it holds of a card is no stranger's."""
        child = self._child
        return frozenset() if child is None else frozenset({child.pid})

    def examine(self, subject: Subject) -> Health:
        """Try them. Takes some seconds, and minutes where something hangs. Raises OSError where this machine lacks
        what it takes to start a child."""
        with self._trying:
            return self._examine(subject)

    def close(self) -> None:
        """End what is at work: for whoever ends, and does not wait for it."""
        child = self._child
        if child is not None and child.poll() is None:
            _kill(child)

    def _examine(self, subject: Subject) -> Health:
        self._left = [child for child in self._left if child.poll() is None]
        who = f"card {', '.join(subject.cards)}" if subject.cards else "the processor"
        kind, python = subject.kind, python_of(subject.vllm, subject.environment.get("PATH"))
        if kind is None:
            drivers = ", ".join(str(driver) for driver in subject.drivers)
            return _untried(f"{who} could not be tried: what torch calls a card with the driver {drivers} is not known")
        if python is None:
            return _untried(f"{who} could not be tried: which Python {subject.vllm} runs with cannot be told")
        earlier = running(self._script, subject.cards)
        if earlier is not None:
            return self._earlier(subject, who, *earlier)
        return self._attempt(subject, kind, python)

    def _earlier(self, subject: Subject, who: str, pid: int, age: float) -> Health:
        """Somebody's trial is still there: one at work, or one that hangs."""
        left = any(child.pid == pid for child in self._left)
        # What another user's process looks like is his word: nobody may have a card given up by it.
        if not left and (age <= self._limit(subject) + _SPARE or proc.describe(pid)[1] not in _trusted()):
            return _untried(f"{who} is being tried by process {pid} already")
        words = (
            f"{who}: an earlier trial hangs in the driver (process {pid}, for {age:.0f} s), and was not started again"
        )
        return Health(Verdict.WEDGED, words, f"reboot; else {_remedy(subject)}")

    def _limit(self, subject: Subject) -> int:
        """Seconds after which a trial of these cards ends itself: each step may have taken all of its time."""
        return int(self._patience.loads + self._patience.step * (1 + len(subject.cards))) + _SPARE

    def _attempt(self, subject: Subject, kind: str, python: str) -> Health:
        argv = (python, self._script, kind, str(self._limit(subject)), *subject.cards)
        with tempfile.TemporaryFile() as err:
            try:
                child = _start(argv, subject.environment, err)
            except OSError as error:
                if error.errno in proc.OWN_LACK:
                    raise
                return _untried(f"the runtime's Python {python} cannot be started: {error.strerror}")
            self._child = child
            try:
                said, waited, late = _listen(child, self._patience)
                end = self._ended(child, late)
            finally:
                self._child = None
                if child.stdout is not None:
                    child.stdout.close()
            words = said.decode("utf-8", "replace")
            trial = Trial(kind, subject.cards, words, _last_line(err), end, waited, child.pid)
        return judged(trial, _remedy(subject))

    def _ended(self, child: "subprocess.Popen[bytes]", late: bool) -> int | End:
        """Its exit code, or what had to be done to it."""
        if not late:
            try:
                return child.wait(self._patience.killed)
            except subprocess.TimeoutExpired:
                # It has said all it has to say, and does not go: what a driver does when a process leaves it hangs.
                late = True
        _kill(child)
        try:
            child.wait(self._patience.killed)
        except subprocess.TimeoutExpired:
            self._left.append(child)
            return End.DEAF
        return End.LATE


def python_of(vllm: str, path: str | None = None) -> str | None:
    """The Python that the executable runs with: the one in its first line, else the one beside it.

    `path` is the PATH that a first line with `env` looks in.
    """
    try:
        with open(vllm, "rb") as file:
            first, second = (file.readline(4096).decode("utf-8", "replace").strip() for _ in range(2))
    except OSError:
        return None
    named = first.removeprefix("#!").split() if first.startswith("#!") else []
    if len(named) == 1 and os.path.basename(named[0]).startswith("python"):
        return named[0]
    if named and os.path.basename(named[0]) == "env":
        python = next((word for word in named[1:] if word.startswith("python")), None)
        return None if python is None else shutil.which(python, path=path)
    # Where the path is too long for a first line, pip has the shell exec it: '''exec' "/long/python" "$0" "$@"
    if second.startswith("'''exec' "):
        word = second.removeprefix("'''exec' ").lstrip()
        path = word[1:].partition('"')[0] if word.startswith('"') else word.partition(" ")[0]
        return path or None
    beside = os.path.join(os.path.dirname(os.path.realpath(vllm)), "python3")
    return beside if _executable(beside) else None


def running(script: str, cards: Sequence[str], root: str = proc.ROOT) -> tuple[int, float] | None:
    """Pid and age in seconds of the oldest living trial of these cards, whoever started it. Raises OSError."""
    wanted = [os.fsencode(os.path.basename(script)), *(os.fsencode(card) for card in cards)]
    found: list[tuple[float, int]] = []
    for seen in proc.every_stat(root):
        # The command first: the words of one that hangs in the kernel may be locked away with its memory.
        if seen.command.startswith("python") and not seen.ended and _tries(seen.pid, wanted, root):
            began = seen.start / os.sysconf("SC_CLK_TCK")
            found.append((time.clock_gettime(time.CLOCK_BOOTTIME) - began, seen.pid))
    if not found:
        return None
    age, pid = max(found)
    return pid, age


def _trusted() -> frozenset[str]:
    """Users whose processes may tell that a card hangs."""
    return frozenset({proc.user_name(0), proc.user_name(os.geteuid())})


def _tries(pid: int, wanted: list[bytes], root: str) -> bool:
    """It runs the script with exactly these cards: `python SCRIPT KIND SECONDS CARD...`."""
    try:
        with open(f"{root}/{pid}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")[:-1]
    except OSError as error:
        if error.errno in proc.OWN_LACK:
            raise
        return False
    return len(words) > 3 and [os.path.basename(words[1]), *words[4:]] == wanted


def _start(argv: Sequence[str], environment: Mapping[str, str], err: IO[bytes]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(argv),
        env=dict(environment),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=err,
        start_new_session=True,
    )


def _listen(child: "subprocess.Popen[bytes]", patience: Patience) -> tuple[bytes, float, bool]:
    """What it says until it closes its end, the seconds that the last step was given, and whether they ran out."""
    pipe = child.stdout
    if pipe is None:
        raise ValueError("a child without a pipe says nothing")
    poll = select.poll()
    poll.register(pipe.fileno(), select.POLLIN)
    said, steps, waited = b"", 0, patience.loads
    deadline = time.monotonic() + waited
    while len(said) < _MOST:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return said, waited, True
        chunk = os.read(pipe.fileno(), 4096)
        if not chunk:
            return said, waited, False
        said += chunk
        taken = sum(line.startswith(_STEPS) for line in said.splitlines())
        # What babbles gains no time by it.
        if taken > steps:
            steps, waited = taken, patience.step
            deadline = time.monotonic() + waited
    return said, waited, True


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """It is its own group's leader; whoever waits for it may have reaped it at this moment."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _last_line(err: IO[bytes]) -> str:
    size = err.seek(0, os.SEEK_END)
    err.seek(max(0, size - 2000))
    lines = [line.strip() for line in err.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _executable(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False


def _remedy(subject: Subject) -> str:
    pairs = zip(subject.cards, subject.drivers, strict=True)
    return "; ".join(dict.fromkeys(remedy_of(card, driver) for card, driver in pairs))


def _untried(words: str) -> Health:
    return Health(Verdict.INCONCLUSIVE, words)
