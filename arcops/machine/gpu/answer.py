"""Do the cards answer? Each is asked by a child process (see `ask`), which may hang in the driver without us."""

import errno
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from arcops.machine.gpu.base import CardIdentity
from arcops.machine.gpu.question import Fault, question_for

WITHIN = 30.0
"""Seconds that a card is given to answer. It takes some milliseconds, and a child's start twenty; on a machine that
loads a model from a slow disk, or swaps, it may be seconds."""


def command(card: CardIdentity) -> Sequence[str]:
    """What asks one card."""
    return question_for(card.driver).command(card)


class Asker:
    """Asks cards, and remembers which of its children have not come back: a card is not asked twice at once.

    From any thread: whoever comes second waits for the first.
    """

    def __init__(self, within: float = WITHIN, command: Callable[[CardIdentity], Sequence[str]] = command) -> None:
        self._within = within
        self._command = command
        self._away: dict[str, subprocess.Popen[bytes]] = {}
        self._asking = threading.Lock()

    def fault(self, cards: Mapping[str, CardIdentity], addresses: Sequence[str]) -> Fault | None:
        """Why one of these cards does not answer; None when all do.

        Takes up to `within` seconds, and as long again for each caller that was first. `cards` are those that the
        machine has now, by address. Raises OSError when no child can be started, or one says nothing to be understood.
        """
        found = [standing(cards.get(address), address) for address in addresses]
        asked = [cards[address] for address, fault in zip(addresses, found, strict=True) if fault is None]
        with self._asking:
            answers = self._ask(asked)
        faults = [fault for fault in (*found, *answers) if fault is not None]
        if not faults:
            return None
        return Fault("; ".join(fault.words for fault in faults), any(fault.wedged for fault in faults))

    def _ask(self, cards: Sequence[CardIdentity]) -> list[Fault | None]:
        children = [(card, self._child(card)) for card in cards]
        deadline = time.monotonic() + self._within
        return [self._answer(card, child, deadline) for card, child in children]

    def _child(self, card: CardIdentity) -> "subprocess.Popen[bytes]":
        away = self._away.pop(card.address, None)
        if away is not None:
            if away.poll() is None:
                return away
            # It came back some time ago, and what it found is old.
            away.communicate()
        return subprocess.Popen(
            self._command(card), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def _answer(self, card: CardIdentity, child: "subprocess.Popen[bytes]", deadline: float) -> Fault | None:
        try:
            said, _ = child.communicate(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            # SIGKILL would not end what hangs in a driver. If the driver lets go, its answer is the next one's.
            self._away[card.address] = child
            return Fault(
                f"card {card.address} does not answer: its driver {card.driver} has not come back within"
                f" {self._within:.0f} s; unless this machine is overloaded it hangs, and a reboot helps"
            )
        return understood(card, said.decode("ascii", "replace"), child.returncode)


def standing(card: CardIdentity | None, address: str) -> Fault | None:
    """What sysfs alone has against a card; None when it can be asked."""
    if card is None:
        gone = f"card {address} is gone from the PCI bus: `echo 1 > /sys/bus/pci/rescan` as root, or reboot"
        return Fault(gone, wedged=True)
    if card.driver is None:
        return Fault(
            f"no driver is bound to card {address}: bind or load it (`modprobe xe` for an Arc card), or reboot"
        )
    return question_for(card.driver).standing(card)


def understood(card: CardIdentity, said: str, code: int = 0) -> Fault | None:
    """What came back; None when the card answers. Raises OSError for what cannot be understood."""
    if code == 0 and not said:
        return None
    found = question_for(card.driver).fault(card, said) if code == 0 else None
    if found is None:
        raise OSError(errno.EPROTO, f"whether card {card.address} answers: the question ended with exit code {code}")
    return found
