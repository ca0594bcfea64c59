"""A daemon on a machine that has a card, and a kernel that says of it what the test wants.

`python -m tests.daemon.carded FOLDER`. In FOLDER `sys` is what the kernel shows of its devices, `proc` who has them
open beside our backend, and `kmsg` its log, a record of /dev/kmsg a line; while there is `dead` the card answers with
the errno in it. There is no driver and no node: how those are asked is tested in tests/machine/gpu.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from arcops.config import locate
from arcops.config.paths import Paths
from arcops.core.diagnosis.kernel import parse_record
from arcops.core.errors import ArcopsError
from arcops.core.quantity import Known
from arcops.daemon import backend, looks, trials, wiring
from arcops.daemon.card_memory import CardMemory
from arcops.daemon.card_watch import CardWatch
from arcops.daemon.cards import CardBook
from arcops.daemon.kernel_word import KernelWord, Lines
from arcops.daemon.main import configure_logging, serve
from arcops.daemon.plans import Plans
from arcops.machine import kernel_log
from arcops.machine.gpu import Asker, CardIdentity, find_cards
from arcops.machine.gpu.base import Roots
from arcops.machine.gpu.health import Examiner
from tests.daemon.rig import Rig
from tests.trees.procfs import MIB, Client, Open, Process, Procfs

CARD = "0000:0c:00.0"
LOST = "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"
"""What vLLM on XPU says when its card is gone from under it."""
_ASK = "import os, sys; print(f'ioctl {open(sys.argv[1]).read()}' if os.path.exists(sys.argv[1]) else '', end='')"
"""Says of a card what `machine/gpu/ask.py` would."""


@dataclass(slots=True)
class CardedRig(Rig):
    """A rig whose profiles may have a card."""

    _kmsg: int = -1
    """Our end of the pipe that stands for /dev/kmsg: the daemon follows it, and hears of its end if we let go."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Rig.__exit__(self, kind, error, trace)
        if self._kmsg >= 0:
            os.close(self._kmsg)

    @property
    def folder(self) -> Path:
        return self.root / "machine"

    def daemon_command(self) -> list[str]:
        return [sys.executable, "-m", "tests.daemon.carded", str(self.folder)]

    def with_card(self) -> Self:
        """There is one card, and `carded` is a profile for it."""
        devices = self.folder / "sys/bus/pci"
        card, driver = devices / "devices" / CARD, devices / "drivers/xe"
        driver.mkdir(parents=True)
        (card / "drm/renderD128").mkdir(parents=True)
        for name, text in (("class", "0x030000"), ("vendor", "0x8086"), ("device", "0xe223")):
            (card / name).write_text(f"{text}\n")
        (card / "driver").symlink_to(driver)
        self.profile("carded", extends="target-only", device={"kind": "xpu", "cards": [CARD]})
        Procfs.of(self.folder / "proc", ())
        pipe = self.folder / "dev/kmsg"
        pipe.parent.mkdir()
        os.mkfifo(pipe)
        self._kmsg = os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        return self

    def memory_in_use(self, mib: int) -> None:
        """What the card says from now on; before that, it does not say."""
        words = self.folder / "sys/kernel/debug/dri" / CARD / "vram0_mm"
        words.parent.mkdir(parents=True, exist_ok=True)
        new = words.with_name("new")
        new.write_text(f"  size: {32_768 * MIB}\n  usage: {mib * MIB}\n")
        new.rename(words)

    def holder_comes(self, pid: int, command: str, mib: int) -> None:
        """Somebody else has so much of the card."""
        one = Process(pid, (Open(Client(pid, mib, card=CARD)),), command, uid=0)
        Procfs(self.folder / "proc").add(one)

    def holder_goes(self, pid: int) -> None:
        Procfs(self.folder / "proc").remove(pid)

    def kernel_says(self, text: str) -> None:
        """One more line of the kernel's log, said now: to be found there, and to whoever follows it."""
        record = f"3,1,{time.monotonic() * 1e6:.0f},-;{text}\n"
        with (self.folder / "kmsg").open("a") as log:
            log.write(record)
        os.write(self._kmsg, record.encode())

    def trial_says(self, text: str) -> None:
        """What a trial of the card comes to from now on, in the words of the script."""
        (self.folder / "trial").write_text(text)

    def card_answers(self, errno: int = 0) -> None:
        """With an error from now on; 0 for as it should."""
        if errno:
            (self.folder / "dead").write_text(str(errno))
        else:
            (self.folder / "dead").unlink(missing_ok=True)

    def card_is_reset(self) -> None:
        """It was rebound, or the machine rebooted: it answers, and nothing that was said of it is of this launch."""
        self.card_answers()
        (self.folder / "kmsg").unlink(missing_ok=True)


def kernel_of(folder: Path) -> type[KernelWord]:
    """The kernel's word as `folder` has it."""

    def read(began: float, now: float) -> Lines:
        log = folder / "kmsg"
        records = log.read_text().splitlines() if log.exists() else []
        lines = [line for line in map(parse_record, records) if line is not None]
        return Known(tuple(line for line in lines if line.at >= kernel_log.moment(began, now)), now)

    class Told(KernelWord):
        def __init__(self, wake: Callable[[], None]) -> None:
            KernelWord.__init__(self, wake, read)

    return Told


_TRIAL = """
import pathlib
said = pathlib.Path(__file__).with_name("trial")
print(said.read_text() if said.exists() else "torch 2.13\\ncards 1\\ntry 0 a card\\nright 0 0.02\\ndone")
"""
"""A trial of the card in the runtime's Python: `trial` in the folder says what came of it, else the card computes."""


def main(folder: Path) -> None:
    configure_logging()
    locate.SYSFS = folder / "sys"
    looks.find_cards = partial(find_cards, str(folder / "sys"))
    backend.KernelWord = kernel_of(folder)

    def command(card: CardIdentity) -> tuple[str, ...]:
        del card
        return (sys.executable, "-I", "-S", "-c", _ASK, str(folder / "dead"))

    looks.Asker = partial(Asker, command=command)
    trials.find_cards = partial(find_cards, str(folder / "sys"))
    script = folder / "trial.py"
    script.write_text(_TRIAL)
    trials.Examiner = partial(Examiner, script=str(script))
    roots = Roots(str(folder / "proc"), str(folder / "sys"), str(folder / "dev"))
    wiring.CardWatch = partial(CardWatch, dev=str(folder / "dev"), sys=str(folder / "sys"))
    wiring.CardMemory = partial(CardMemory, roots=roots)
    wiring.Plans = partial(Plans, roots=roots)
    wiring.CardBook = partial(CardBook, roots=Roots(sys=str(folder / "sys"), dev=str(folder / "dev")))
    try:
        asyncio.run(serve(Paths.of(os.environ["ARCOPS_INSTANCE"])))
    except ArcopsError as error:
        sys.stderr.write(f"arcopsd: {error}\n")
        raise SystemExit(int(error.exit_code)) from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
