"""Does a card compute? A script of its own, for the Python of a runtime: the standard library and that runtime's torch.

    python health_script.py xpu|cuda|cpu SECONDS [CARD...]

On every card that torch sees it multiplies two matrices of noughts and ones, in the type that models run in as well,
and compares with what the processor makes of them in whole numbers. Every sum is a whole number of at most `SIZE`, and
bfloat16 and float32 hold each of those exactly: no rounding explains a difference.

What it does is said line by line, a step's word first, so that whoever started it knows how far it came if it hangs:
`torch 2.13.0`, `cards 1`, `try 0 NAME`, `right 0 SECONDS`, `done`. Where it goes wrong that is the last line:
`missing`, `broken`, `none`, `raised 0`, `wrong 0`, each with words. It ends itself after SECONDS, should nobody else
do so. Behind SECONDS come the cards' addresses, for whoever looks for a trial of them in /proc.

Nothing of arcops is imported: the runtime's Python may be another version.
"""

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

SIZE = 256
"""Rows and columns: small, and enough for the engines that multiply matrices to be used."""
TYPES = ("float32", "bfloat16")
LONGEST = 400
"""Characters of somebody else's words that are passed on."""

Say = Callable[[str], None]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def words(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text[:LONGEST]


def load(tell: Say) -> Any:  # torch is not one of arcops' own packages: nobody here knows its types
    """The runtime's torch, or None where it cannot be had."""
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        tell(f"{'missing' if error.name == 'torch' else 'broken'} {words(error)}")
        return None
    except Exception as error:  # noqa: BLE001 - a library of the driver's that cannot be loaded has any exception
        tell(f"broken {words(error)}")
        return None
    tell(f"torch {torch.__version__}")
    return torch


def count(torch: Any, kind: str) -> int:
    """How many cards of this kind torch sees; the processor is one."""
    if kind == "cpu":
        return 1
    module = getattr(torch, kind, None)
    return 0 if module is None else int(module.device_count())


def name(torch: Any, kind: str, index: int) -> str:
    return "processor" if kind == "cpu" else str(getattr(torch, kind).get_device_name(index))


def compute(torch: Any, device: str) -> str:
    """Multiply there and compare; the first difference in words, empty where there is none."""
    steps = torch.arange(SIZE)
    left = (steps.unsqueeze(1) * 3 + steps) % 7 % 2
    right = (steps.unsqueeze(1) + steps * 5) % 11 % 2
    wanted = left @ right
    for kind in TYPES:
        dtype = getattr(torch, kind)
        found = (left.to(dtype).to(device) @ right.to(dtype).to(device)).cpu().to(wanted.dtype)
        wrong = int((found != wanted).sum())
        if wrong:
            return f"{wrong} of {SIZE * SIZE} numbers in {kind} are wrong"
    return ""


def attempt(torch: Any, kind: str, index: int, tell: Say) -> bool:
    """Try one card; whether it computes."""
    try:
        tell(f"try {index} {' '.join(name(torch, kind, index).split())[:LONGEST]}")
        began = time.monotonic()
        difference = compute(torch, kind if kind == "cpu" else f"{kind}:{index}")
    except Exception as error:  # noqa: BLE001 - torch raises what its driver's library made up
        tell(f"raised {index} {words(error)}")
        return False
    tell(f"wrong {index} {difference}" if difference else f"right {index} {time.monotonic() - began:.3f}")
    return not difference


def examine(kind: str, tell: Say = say) -> None:
    """All of it."""
    torch = load(tell)
    if torch is None:
        return
    try:
        cards = count(torch, kind)
    except Exception as error:  # noqa: BLE001 - as above
        tell(f"none {words(error)}")
        return
    if cards == 0:
        tell(f"none torch {torch.__version__} sees no {kind} card")
        return
    tell(f"cards {cards}")
    if all(attempt(torch, kind, index, tell) for index in range(cards)):
        tell("done")


def main(kind: str, seconds: int) -> None:
    signal.alarm(seconds)
    # The folder of this script has modules of arcops, which are not for the runtime's Python.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) != here]
    examine(kind)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
