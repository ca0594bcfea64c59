"""How a card is asked whether it answers, by its driver: what is run, and what its answer means in words."""

import errno
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from arcops.machine.gpu import nvml
from arcops.machine.gpu.base import CardIdentity

_ASK = os.path.join(os.path.dirname(__file__), "ask.py")
_REBIND = "as root `echo {card} > /sys/bus/pci/drivers/{driver}/unbind`, then the same with `bind`; or reboot"
_GONE = frozenset({errno.ENODEV, errno.ENXIO})
_WEDGED = frozenset({errno.ECANCELED, errno.EIO})
_RESET = "`nvidia-smi --gpu-reset` as root, with nothing else on the card, or reboot"
_RECOVERY = {
    1: _RESET,
    2: "reboot the machine",
    3: "end what runs on the card",
    4: f"end what runs on it, then {_RESET}",
}


class Question(Protocol):
    """One way to ask."""

    def standing(self, card: CardIdentity) -> str:
        """What sysfs alone has against a card with a driver, in words with what to do; empty when it can be asked."""
        ...

    def command(self, card: CardIdentity) -> Sequence[str]:
        """What asks: it prints nothing when the card answers."""
        ...

    def words(self, card: CardIdentity, said: str) -> str | None:
        """What was printed, in words with what to do; None for what cannot be understood."""
        ...


class DrmQuestion:
    """Of the card's render node."""

    def standing(self, card: CardIdentity) -> str:
        if card.render_node is None:
            return f"driver {card.driver} has made no render node for card {card.address}: `journalctl -k` says why"
        return ""

    def command(self, card: CardIdentity) -> Sequence[str]:
        return (sys.executable, "-I", "-S", _ASK, card.render_node or "")

    def words(self, card: CardIdentity, said: str) -> str | None:
        step, number = _parts(said)
        if step not in ("open", "ioctl") or number is None:
            return None
        why = os.strerror(number)
        if number in _WEDGED:
            return f"card {card.address} is wedged ({why}): {_REBIND.format(card=card.address, driver=card.driver)}"
        if number in _GONE:
            return f"card {card.address} does not answer ({why}): it was unplugged or reset; reboot"
        if number == errno.EACCES:
            return f"card {card.address}: this user may not open {card.render_node}; the group `render` usually may"
        if number == errno.ENOENT:
            return f"card {card.address}: {card.render_node} is not there (not in this container, or not made by udev)"
        if number == errno.ENOTTY:
            return f"card {card.address}: {card.render_node} is no device of a graphics driver"
        return f"card {card.address} does not answer: {step} {card.render_node}: {why}"


class NvmlQuestion:
    """Of NVIDIA's management library: its driver need not make a render node."""

    def standing(self, card: CardIdentity) -> str:
        del card
        return ""

    def command(self, card: CardIdentity) -> Sequence[str]:
        return (sys.executable, "-P", "-m", "arcops.machine.gpu.ask_nvidia", card.address)

    def words(self, card: CardIdentity, said: str) -> str | None:
        step, number = _parts(said)
        if number is None:
            return None
        match step, number:
            case "missing", _:
                return f"card {card.address} cannot be asked: {nvml.MISSING}"
            case "recovery", _:
                wanted = _RECOVERY.get(number, f"its driver wants recovery action {number}")
                return f"card {card.address} needs to be recovered: {wanted}"
            case "nvml", nvml.GPU_IS_LOST:
                return f"card {card.address} has fallen off the bus (NVML: GPU is lost): reboot"
            case "nvml", nvml.RESET_REQUIRED:
                return f"card {card.address} is wedged (NVML: reset required): {_RESET}"
            case "nvml", nvml.DRIVER_NOT_LOADED | nvml.LIBRARY_NOT_FOUND:
                return f"card {card.address}: NVIDIA's driver or its library libnvidia-ml.so.1 is not here"
            case "nvml", nvml.NO_PERMISSION:
                return f"card {card.address}: this user may not ask it (see `ls -l /dev/nvidia*`)"
            case "nvml", nvml.NOT_FOUND:
                return f"card {card.address} is not one of NVML's (a container without it?)"
            case "nvml", _:
                return f"card {card.address} does not answer: NVML error {number}"
            case _:
                return None


def question_for(driver: str | None) -> Question:
    """How a card with this driver is asked."""
    return NvmlQuestion() if driver == "nvidia" else DrmQuestion()


def _parts(said: str) -> tuple[str, int | None]:
    step, _, number = said.partition(" ")
    return step, int(number) if number.isdecimal() else None
