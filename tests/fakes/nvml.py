"""NVML played back: it answers as the tape says that a real card did, and refuses as told."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from arcops.machine.gpu.nvml import Library
from tools.card import tape

RECORDED = Path(__file__).parents[1] / "data" / "nvidia" / "h200-nvml.json"


class Refusal(Exception):  # noqa: N818 - it stands for NVML's own
    def __init__(self, value: int) -> None:
        super().__init__({3: "Not Supported", 4: "Insufficient Permissions"}.get(value, f"error {value}"))
        self.value = value


class Played:
    """NVML that has `answers` and nothing else: whatever is asked beside them is a test's mistake.

    An answer that is a number of NVML_ERROR_* in `refuses` is refused, wherever a question begins with its name.
    """

    NVMLError: type[Exception] = Refusal
    nvmlMemory_v2: int = 0x02000028  # noqa: N815 - NVML's name

    def __init__(self, answers: Mapping[str, object], refuses: Mapping[str, int] | None = None) -> None:
        self._answers, self._refuses = answers, refuses or {}
        self.visits = 0
        self.open = 0

    @property
    def library(self) -> Library:
        return cast("Library", self)

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name, and those below
        self._may("nvmlInit()")
        self.visits, self.open = self.visits + 1, self.open + 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByPciBusId(self, address: bytes) -> object:  # noqa: N802
        self._may("nvmlDeviceGetHandleByPciBusId()")
        return address

    def __getattr__(self, name: str) -> object:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: object, **named: object) -> object:
            where = tape.key(name, (*arguments, *named.values()))
            self._may(where)
            answer = self._answers[where]
            code = tape.refusal(answer)
            if code is not None:
                raise Refusal(code)
            return tape.play(answer)

        return call

    def _may(self, where: str) -> None:
        for name, code in self._refuses.items():
            if where.startswith(name):
                raise Refusal(code)


def recorded(which: str) -> dict[str, object]:
    """What an H200 answered: `idle`, or `loaded` (with 2 GiB of somebody's, at its power limit)."""
    return cast("dict[str, object]", json.loads(RECORDED.read_text(encoding="utf-8"))[which])
