"""Ask an NVIDIA card for a sign of life through NVML, in a process of its own: a call into a hung driver never returns.

Prints nothing when the card answers and wants nothing done to it, else one word and a number: `nvml 15` (NVML's error),
`recovery 1` (what the driver wants, see `nvml.RECOVERY_ACTION`), `missing 0` (there is no nvidia-ml-py).
"""

import sys

from arcops.machine.gpu import nvml
from arcops.machine.gpu.nvml import Library, NvmlError


def ask(address: str, library: Library | None = None) -> str:
    """`""` if the card answers and is well. What it cannot tell of its recovery is no fault."""
    try:
        with nvml.visit(address, library) as card:
            card.memory()
            action = card.recovery_action()
    except NvmlError as error:
        return "missing 0" if error.code is None else f"nvml {error.code}"
    return f"recovery {action}" if action else ""


if __name__ == "__main__":
    sys.stdout.write(ask(sys.argv[1]))
