"""The card as others see it: nvidia-smi's word, to hold arcops' own reader against."""

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from arcops.machine.gpu import Client, find_cards, nvml, reader_for

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Truth:
    """nvidia-smi's view: MiB in use, and MiB by pid."""

    used: int
    by_pid: dict[int, int]


def address() -> str:
    """The PCI address of the first NVIDIA card. Raises SystemExit where there is none."""
    for card in find_cards():
        if card.driver == "nvidia":
            return card.address
    raise SystemExit("there is no NVIDIA card in this machine")


def truth() -> Truth:
    """Asked of nvidia-smi."""
    used = _smi("--query-gpu=memory.used")
    processes = _smi("--query-compute-apps=pid,used_memory")
    by_pid = {int(pid): int(size) for pid, size in (line.split(",") for line in processes)}
    return Truth(int(used[0]), by_pid)


def holders(card: str) -> tuple[Client, ...]:
    """Asked of arcops' reader."""
    reader = reader_for("nvidia")
    assert reader is not None
    return reader.holders([card])[0]


def until_free(baseline: int, within: float = 60.0) -> float | None:
    """Seconds until no more of the card is in use than `baseline` (MiB); None where that takes longer.

    Asked of NVML in one visit: a look of arcops' reader is too coarse for milliseconds.
    """
    began = time.monotonic()
    with nvml.visit(address()) as card:
        while time.monotonic() - began < within:
            if card.memory().used // MIB <= baseline + 16:
                return time.monotonic() - began
            time.sleep(0.002)
    return None


class Foreigner:
    """A process of somebody else's that holds `gib` GiB of the card. Use it with `with`."""

    CODE = (
        "import sys, time, torch\n"
        "held = torch.zeros(int(sys.argv[1]) << 30, dtype=torch.uint8, device='cuda')\n"
        "print('holding', flush=True)\n"
        "time.sleep(600)\n"
    )

    def __init__(self, gib: int) -> None:
        self._gib = gib

    def __enter__(self) -> "Foreigner":
        self._process = subprocess.Popen([sys.executable, "-c", self.CODE, str(self._gib)], stdout=subprocess.PIPE)
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
