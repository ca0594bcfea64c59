"""How a card is asked whether it answers, by its driver: what is run, and what its answer means in words."""

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from arcops.machine.gpu import nvml
from arcops.machine.gpu.base import CardIdentity

_ASK = os.path.join(os.path.dirname(__file__), "ask.py")
_REBIND = "as root `echo {card} > /sys/bus/pci/drivers/{driver}/unbind`, then the same with `bind`; or reboot"
_GONE = frozenset({errno.ENODEV, errno.ENXIO})
_WEDGED = frozenset({errno.ECANCELED, errno.EIO})
_RESET = "`nvidia-smi --gpu-reset` as root, with nothing else on the card, or reboot"
_DRAIN = 3
_RECOVERY = {
    1: _RESET,
    2: "reboot the machine",
    _DRAIN: "end what runs on the card",
    4: f"end what runs on it, then {_RESET}",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a card does not answer."""

    words: str
    """With what to do."""
    wedged: bool = False
    """It will not before it was bound anew, reset or rebooted: that is known, and not only feared."""


class Question(Protocol):
    """One way to ask."""

    def standing(self, card: CardIdentity) -> Fault | None:
        """What sysfs alone has against a card with a driver; None when it can be asked."""
        ...

    def command(self, card: CardIdentity) -> Sequence[str]:
        """What asks: it prints nothing when the card answers."""
        ...

    def fault(self, card: CardIdentity, said: str) -> Fault | None:
        """What was printed, understood; None for what cannot be."""
        ...


class DrmQuestion:
    """Of the card's render node."""

    def standing(self, card: CardIdentity) -> Fault | None:
        if card.render_node is None:
            return Fault(f"driver {card.driver} has made no render node for card {card.address}: see `journalctl -k`")
        return None

    def command(self, card: CardIdentity) -> Sequence[str]:
        return (sys.executable, "-I", "-S", _ASK, card.render_node or "")

    def fault(self, card: CardIdentity, said: str) -> Fault | None:
        step, number = _parts(said)
        if step not in ("open", "ioctl") or number is None:
            return None
        why = os.strerror(number)
        if number in _WEDGED:
            todo = remedy_of(card.address, card.driver)
            return Fault(f"card {card.address} is wedged ({why}): {todo}", wedged=True)
        if number in _GONE:
            return Fault(f"card {card.address} does not answer ({why}): it was unplugged or reset; reboot", wedged=True)
        if number == errno.EACCES:
            return Fault(f"card {card.address}: this user may not open {card.render_node}; the group `render` may")
        if number == errno.ENOENT:
            where = "not in this container, or not made by udev"
            return Fault(f"card {card.address}: {card.render_node} is not there ({where})")
        if number == errno.ENOTTY:
            return Fault(f"card {card.address}: {card.render_node} is no device of a graphics driver")
        return Fault(f"card {card.address} does not answer: {step} {card.render_node}: {why}")


class NvmlQuestion:
    """Of NVIDIA's management library: its driver need not make a render node."""

    def standing(self, card: CardIdentity) -> Fault | None:
        del card
        return None

    def command(self, card: CardIdentity) -> Sequence[str]:
        return (sys.executable, "-P", "-m", "arcops.machine.gpu.ask_nvidia", card.address)

    def fault(self, card: CardIdentity, said: str) -> Fault | None:
        step, number = _parts(said)
        if number is None:
            return None
        name = f"card {card.address}"
        match step, number:
            case "missing", _:
                return Fault(f"{name} cannot be asked: {nvml.MISSING}")
            case "recovery", _:
                wanted = _RECOVERY.get(number, f"its driver wants recovery action {number}")
                return Fault(f"{name} needs to be recovered: {wanted}", number != _DRAIN)
            case "nvml", nvml.GPU_IS_LOST:
                return Fault(f"{name} has fallen off the bus (NVML: GPU is lost): reboot", wedged=True)
            case "nvml", nvml.RESET_REQUIRED:
                return Fault(f"{name} is wedged (NVML: reset required): {_RESET}", wedged=True)
            case "nvml", nvml.DRIVER_NOT_LOADED | nvml.LIBRARY_NOT_FOUND:
                return Fault(f"{name}: NVIDIA's driver or its library libnvidia-ml.so.1 is not here")
            case "nvml", nvml.NO_PERMISSION:
                return Fault(f"{name}: this user may not ask it (see `ls -l /dev/nvidia*`)")
            case "nvml", nvml.NOT_FOUND:
                return Fault(f"{name} is not one of NVML's (a container without it?)")
            case "nvml", _:
                return Fault(f"{name} does not answer: NVML error {number}")
            case _:
                return None


def remedy_of(card: str, driver: str | None) -> str:
    """What brings a card back that is wedged, by its address and its kernel driver."""
    if driver is None:
        return "reboot the machine"
    return _RESET if driver == "nvidia" else _REBIND.format(card=card, driver=driver)


def question_for(driver: str | None) -> Question:
    """How a card with this driver is asked."""
    return NvmlQuestion() if driver == "nvidia" else DrmQuestion()


def _parts(said: str) -> tuple[str, int | None]:
    step, _, number = said.partition(" ")
    return step, int(number) if number.isdecimal() else None
