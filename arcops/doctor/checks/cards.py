"""The configured cards: does the render node open, which driver and firmware has each?"""

import os
from dataclasses import dataclass
from pathlib import Path

from arcops.doctor.finding import Outcome, Verdict, ok, together
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight, read_text
from arcops.machine.gpu import CardIdentity, reader_for

_VIRTUAL = "vfio-pci"
_OWN_NODES = {"nvidia": "/dev/nvidiactl"}
"""What every user of a card has to open, of drivers that need make no render node."""


@dataclass(frozen=True, slots=True)
class Node:
    """The device node of one configured card: its render node, or NVIDIA's own where its driver has none."""

    address: str
    there: bool
    """There is such a card."""
    driver: str | None
    path: str | None
    error: str
    """Why it does not open; empty where it does."""


@dataclass(frozen=True, slots=True)
class Driver:
    address: str
    name: str | None
    """What the card is called."""
    driver: str | None
    understood: bool
    """arcops can read who holds its memory."""
    version: str
    """Of the module, in words."""
    uevent: str
    firmware: str
    """In words, or why it cannot be read."""


def nodes(sight: Sight) -> tuple[Node, ...]:
    found = {card.address: card for card in sight.found_cards()}
    return tuple(_node(sight, address, found.get(address)) for address in sight.usable().cards)


def judge_node(node: Node) -> Outcome:
    if not node.there:
        summary = f"there is no card {node.address} in this machine"
        return Outcome(Verdict.PROBLEM, summary, (), "`lspci -D` lists them; the site's settings name the wanted ones")
    if node.path is None:
        summary = f"card {node.address} has no render node (driver: {node.driver or 'none'})"
        return Outcome(Verdict.PROBLEM, summary, (), f"lspci -nnk -s {node.address}")
    if node.error:
        summary = f"{node.path} of card {node.address} does not open: {node.error}"
        return Outcome(
            Verdict.PROBLEM, summary, (), "arcops doctor groups   (who may open it, and who has those groups)"
        )
    return ok(f"{node.path} of card {node.address} opens")


def drivers(sight: Sight) -> tuple[Driver, ...]:
    found = {card.address: card for card in sight.found_cards()}
    return tuple(_driver(sight, found[address]) for address in sight.usable().cards if address in found)


def judge_driver(one: Driver) -> Outcome:
    evidence = tuple(filter(None, (one.version, one.uevent, one.firmware)))
    what = f"card {one.address}" + (f" ({one.name})" if one.name else "")
    look = f"lspci -nnk -s {one.address}"
    if one.driver is None:
        return Outcome(Verdict.PROBLEM, f"{what} has no driver", evidence, f"{look}; is the module loaded?")
    if one.driver == _VIRTUAL:
        return Outcome(Verdict.PROBLEM, f"{what} was given to virtual machines ({_VIRTUAL})", evidence, look)
    if not one.understood:
        summary = f"{what} has the driver {one.driver}, and arcops cannot read who holds its memory: it will not launch"
        return Outcome(Verdict.PROBLEM, summary, evidence)
    return ok(f"{what} has the driver {one.driver}", *evidence)


def _node(sight: Sight, address: str, card: CardIdentity | None) -> Node:
    device = None if card is None else card.render_node or _OWN_NODES.get(card.driver or "")
    if card is None or device is None:
        return Node(address, card is not None, card.driver if card is not None else None, None, "")
    path = f"{sight.roots.dev}/{device.removeprefix('/dev/')}"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return Node(address, True, card.driver, path, error.strerror or str(error))
    return Node(address, True, card.driver, path, "")


def _driver(sight: Sight, card: CardIdentity) -> Driver:
    device = os.path.join(sight.roots.sys, "bus", "pci", "devices", card.address)
    module = os.path.join(sight.roots.sys, "module", card.driver or "none")
    kernel = read_text(sight.roots.proc, "sys", "kernel", "osrelease") or "unknown"
    version = read_text(module, "version")
    words = f"{card.driver} {version}" if version else f"{card.driver}, of the kernel {kernel}"
    uevent = (read_text(device, "uevent") or "").splitlines()
    shown = [line for line in uevent if line.startswith(("DRIVER=", "PCI_ID=", "PCI_SUBSYS_ID="))]
    return Driver(
        address=card.address,
        name=card.name,
        driver=card.driver,
        understood=reader_for(card.driver) is not None,
        version=words if card.driver else "",
        uevent=" ".join(shown),
        firmware=_firmware(sight.roots.sys, card) if card.driver == "xe" else "",
    )


def _firmware(root: str, card: CardIdentity) -> str:
    """The GuC's version, from debugfs, which is root's. Source: xe_uc_fw_print."""
    debug = Path(root, "kernel/debug/dri")
    for place in (debug / card.address / "gt0/uc/guc_info", *sorted(debug.glob("*/gt0/uc/guc_info"))):
        if place.parts[-4] not in (card.address, *_minors(root, card.address)):
            continue
        lines = [line.strip() for line in (read_text(str(place)) or "").splitlines()]
        said = [line for line in lines if "version" in line.lower()]
        if said:
            return f"GuC firmware: {said[0]} ({place})"
    why = (
        "not mounted"
        if not debug.parent.is_dir()
        else "root's"
        if not os.access(debug, os.R_OK | os.X_OK)
        else "silent"
    )
    return f"GuC firmware: cannot be read (debugfs is {why})"


def _minors(root: str, address: str) -> tuple[str, ...]:
    """`card1` is `1` in debugfs."""
    try:
        names = os.listdir(os.path.join(root, "bus", "pci", "devices", address, "drm"))
    except OSError:
        return ()
    return tuple(name.removeprefix("card") for name in names if name.startswith("card"))


def render_node(sight: Sight) -> Outcome:
    found = [judge_node(node) for node in nodes(sight)]
    return together(found) if found else ok("no profile has a card: everything runs on the CPU")


def driver(sight: Sight) -> Outcome:
    found = [judge_driver(one) for one in drivers(sight)]
    return together(found) if found else ok("no configured card is in this machine")


RENDER_NODE = Check("render-node", "Does the render node of every configured card open?", render_node)
DRIVER = Check("driver", "Which driver and firmware have the configured cards?", driver)
