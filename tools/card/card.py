"""The card as others see it: nvidia-smi's word, to hold arcops' own against; and processes that are not arcops'."""

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from arcops.machine.gpu import CardIdentity, find_cards, nvml
from tools.card import compare

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Truth:
    """nvidia-smi's view: MiB in use, and MiB by pid."""

    used: int
    by_pid: dict[int, int]


def first_card() -> CardIdentity:
    """The first NVIDIA card. Raises SystemExit where there is none."""
    for card in find_cards():
        if card.driver == "nvidia":
            return card
    raise SystemExit("there is no NVIDIA card in this machine")


def truth() -> Truth:
    """Asked of nvidia-smi."""
    used = _smi("--query-gpu=memory.used")
    processes = _smi("--query-compute-apps=pid,used_memory")
    by_pid = {int(pid): int(size) for pid, size in (line.split(",") for line in processes)}
    return Truth(int(used[0]), by_pid)


def figures() -> compare.Figures:
    """Every figure of nvidia-smi's that arcops has a measure for."""
    return compare.figures(_smi(f"--query-gpu={','.join(compare.FIELDS)}")[0])


def everything() -> str:
    """`nvidia-smi -q`, whole."""
    return subprocess.run(["nvidia-smi", "-q"], capture_output=True, text=True, check=True).stdout


def until_free(baseline: int, within: float = 60.0) -> float | None:
    """Seconds until no more of the card is in use than `baseline` (MiB); None where that takes longer.

    Asked of NVML in one visit: a look of arcops' reader is too coarse for milliseconds.
    """
    began = time.monotonic()
    with nvml.visit(first_card().address) as card:
        while time.monotonic() - began < within:
            if card.memory().used // MIB <= baseline + 16:
                return time.monotonic() - began
            time.sleep(0.002)
    return None


class Foreigner:
    """A process of somebody else's that holds `gib` GiB of the card. Use it with `with`.

    `busy`: it multiplies matrices as well, so that clock, power and temperature have something to show.
    """

    CODE = (
        "import sys, time, torch\n"
        "held = torch.zeros(int(sys.argv[1]) << 30, dtype=torch.uint8, device='cuda')\n"
        "a = torch.rand(8192, 8192, dtype=torch.bfloat16, device='cuda') if sys.argv[2] == 'busy' else None\n"
        "torch.cuda.synchronize()\n"
        "print('holding', flush=True)\n"
        "end = time.monotonic() + 600\n"
        "while a is not None and time.monotonic() < end:\n"
        "    for _ in range(50):\n        a @ a\n"
        "    torch.cuda.synchronize()\n"
        "time.sleep(600)\n"
    )

    def __init__(self, gib: int, *, busy: bool = False) -> None:
        self._gib, self._busy = gib, busy

    def __enter__(self) -> "Foreigner":
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, str(self._gib), "busy" if self._busy else "idle"], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"holding")
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            self._process.stdout.close() if self._process.stdout else None


def _smi(query: str) -> list[str]:
    said = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
    )
    return [line for line in said.stdout.splitlines() if line.strip()]
