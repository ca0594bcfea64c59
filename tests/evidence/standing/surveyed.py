"""Environments and qualifications for tests, and a reader of environments that says what the test wants.

`python -m tests.evidence.standing.surveyed FOLDER`: the child of `evidence/standing`, for which the machine has the
environment that is in FOLDER. While there is `hang` in it, it hangs; with `crash` it dies; with `rubbish` it says no
word that anybody understands; with `flood` it never stops. Each reading of the machine is a line in `readings`.
"""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from arcops import __version__
from arcops.config.paths import Paths
from arcops.core.evidence.environment import ChangedFile, Departure, Distribution, Environment, digest_of
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.core.launch import Launch
from arcops.evidence import shelf
from arcops.evidence.record import FORMAT, Record
from arcops.evidence.standing import __main__ as reader
from arcops.evidence.standing import judge

VLLM = Distribution("vllm", "0.29.0")
PLAIN = Environment(
    interpreter="CPython 3.12.14",
    prefix="/opt/vllm",
    distributions=(VLLM,),
    system=(("kernel", "6.17"),),
    cards=(),
    model=None,
    draft=None,
    argv=("/opt/vllm/bin/vllm", "serve", "/models/tiny"),
    environment=(),
    launcher={},
)
PATCHED = replace(
    PLAIN,
    distributions=(replace(VLLM, files=(ChangedFile("vllm/dflash.py", Departure.CHANGED, f"sha256:{'4' * 64}"),)),),
)
"""The same with one file in another state."""


_ITSELF: Final = replace(PLAIN, interpreter="")


def qualify(
    records: Path,
    profile: str,
    environment: Environment,
    *,
    at: float = 1.0,
    passed: bool = True,
    told: Environment | None = _ITSELF,
) -> Path:
    """A record of a qualification in `environment` that began `at`; `told` is what it holds in that one's place."""
    gates = [Gate(name, Verdict.PASSED, "as it should") for name in ("start", "chat", "tools")]
    if not passed:
        gates[-1] = Gate("tools", Verdict.FAILED, "no call came")
    record = Record(
        arcops_record=FORMAT,
        kind="qualification",
        arcops=__version__,
        began=at,
        ended=at + 60.0,
        command=("arcops", "qualify", profile),
        environment=environment if told is _ITSELF else told,
        qualification=Qualification(profile, digest_of(environment), tuple(gates)),
    )
    return shelf.write(records, record).path


def edit(record: Path) -> None:
    """What must not be done to a record: a gate that failed has passed."""
    content = record.read_bytes()
    assert b"6.17" in content
    record.chmod(0o600)
    record.write_bytes(content.replace(b"6.17", b"6.18"))


@dataclass(frozen=True, slots=True)
class Survey:
    """The folder of a reader."""

    folder: Path

    @classmethod
    def there(cls, folder: Path) -> "Survey":
        """The one in this folder; a new one says PLAIN."""
        survey = cls(folder)
        if not folder.exists():
            folder.mkdir()
            survey.says(PLAIN)
        return survey

    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-m", "tests.evidence.standing.surveyed", str(self.folder))

    def says(self, environment: Environment) -> None:
        """What the machine has from now on."""
        new = self.folder / "new"
        new.write_bytes(msgspec.json.encode(environment))
        new.rename(self.folder / "environment")

    def misbehaves(self, how: str) -> None:
        (self.folder / how).touch()

    def behaves(self) -> None:
        for how in ("hang", "crash", "rubbish", "flood"):
            (self.folder / how).unlink(missing_ok=True)

    def readings(self) -> list[str]:
        """Of which profiles the environment was read."""
        told = self.folder / "readings"
        return [line.split()[0] for line in told.read_text().splitlines()] if told.exists() else []

    def pids(self) -> list[int]:
        """Of the readers so far."""
        told = self.folder / "readers"
        return [int(line) for line in told.read_text().split()] if told.exists() else []


def main(folder: Path) -> int:
    with (folder / "readers").open("a") as told:
        told.write(f"{os.getpid()}\n")
    if (folder / "crash").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (folder / "hang").exists():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if (folder / "rubbish").exists():
        sys.stdout.write(json.dumps({"digest": None, "qualified": "perhaps"}))
        return 0
    while (folder / "flood").exists():
        sys.stdout.write("[" * 65536)

    def gathered(launch: Launch, paths: Paths) -> Environment:
        del paths
        with (folder / "readings").open("a") as told:
            told.write(f"{launch.profile} {os.nice(0)}\n")
        return msgspec.json.decode((folder / "environment").read_bytes(), type=Environment)

    judge.gather = gathered  # pyright: ignore[reportAttributeAccessIssue] - less than it takes
    return reader.main()


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
