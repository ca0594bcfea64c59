"""What is below a runtime: the system, the vendors' libraries, and the launch's cards."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arcops.cards.look import Sight, measure
from arcops.core.cards.measures import CardReading
from arcops.core.evidence.environment import EnvironmentCard
from arcops.core.evidence.work import digest
from arcops.core.quantity import Known, Unknown
from arcops.machine import platform_facts
from arcops.machine.gpu.base import MACHINE, Roots
from arcops.machine.hashes import Hashes

CARD_WITHIN: Final = 20.0
"""Seconds that a driver has for an answer; it takes milliseconds."""
_LIBRARIES: Final = {
    "libze_loader.so.1": "level-zero",
    "libze_intel_gpu.so.1": "compute-runtime",
    "libigc.so.2": "graphics-compiler",
    "libigc.so.1": "graphics-compiler 1",
    "libcuda.so.1": "cuda-driver",
    "libnvidia-ml.so.1": "nvidia-ml",
}
"""What a backend on a card loads of the system's, and what it is called here."""
_COMPILERS: Final = ("gcc", "g++", "gcc-c++", "libnuma1", "libtcmalloc-minimal4", "libtcmalloc-minimal4t64")
"""What matters on the processor as well."""
_FIRMWARE_DETAILS: Final = ("firmware", "vbios", "mig")
"""What the drivers call it; NVIDIA's MIG changes what the card is."""


@dataclass(frozen=True, slots=True)
class Platform:
    """What was found."""

    system: tuple[tuple[str, str], ...]
    cards: tuple[EnvironmentCard, ...]
    unread: tuple[str, ...]


def platform_of(
    addresses: Sequence[str],
    setup: str | None,
    variables: Mapping[str, str],
    hashes: Hashes,
    *,
    root: str = "/",
    roots: Roots = MACHINE,
) -> Platform:
    """The system below a launch on the cards with these addresses; on the processor where there are none.

    `variables` are what the backend's environment says of oneAPI and of libraries; `setup` is its set-up script.
    """
    unread: list[str] = []
    cards = _cards(addresses, roots, unread)
    facts = platform_facts.kernel(root)
    for name, value in (
        ("distribution", platform_facts.distribution(root)),
        ("C library", platform_facts.c_library()),
        ("processor", None if addresses else platform_facts.processor(root)),
    ):
        if value is not None:
            facts[name] = value
        elif name != "processor" or not addresses:
            unread.append(f"the {name} of this system cannot be read")
    facts |= platform_facts.one_api(setup, variables)
    packages = platform_facts.packages(root)
    if packages is None:
        unread.append(
            "the system's packages are not known: it has no database of dpkg's or pacman's, and rpm said nothing"
        )
        packages = {}
    wanted = packages if addresses else {name: value for name, value in packages.items() if name in _COMPILERS}
    facts |= {f"package {name}": version for name, version in wanted.items()}
    if addresses:
        facts |= _libraries(variables, hashes, root, unread)
        for driver in sorted({card.driver.partition(" ")[0] for card in cards}):
            facts |= _driver(driver, hashes, root, unread)
    return Platform(tuple(sorted(facts.items())), cards, tuple(unread))


def _libraries(variables: Mapping[str, str], hashes: Hashes, root: str, unread: list[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    search = variables.get("LD_LIBRARY_PATH", "")
    for library in platform_facts.libraries(_LIBRARIES, search, root):
        try:
            facts[_LIBRARIES[library.name]] = f"{os.path.basename(library.path)}, sha256:{hashes.of(library.path)}"
        except OSError as error:
            unread.append(f"the library {library.path} cannot be read: {error.strerror}")
    return facts


def _driver(name: str, hashes: Hashes, root: str, unread: list[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    version = platform_facts.driver(name, root)
    if version is not None:
        facts[f"driver {name}"] = version
    files = platform_facts.firmware_files(name, root)
    try:
        lines = [f"{os.path.basename(file)} {hashes.of(file)}" for file in files]
    except OSError as error:
        unread.append(f"the firmware files of {name} cannot be read: {error.strerror}")
        return facts
    if lines:
        facts[f"firmware files {name}"] = f"{len(lines)} files, {digest(chr(10).join(lines).encode())}"
    return facts


def _cards(addresses: Sequence[str], roots: Roots, unread: list[str]) -> tuple[EnvironmentCard, ...]:
    """Each card; a driver that hangs holds up a thread that nobody waits for any longer."""
    sights: dict[str, Sight] = {}

    def look(address: str) -> None:
        sights[address] = measure(address, None, time.monotonic(), roots)

    threads = [threading.Thread(target=look, args=(address,), daemon=True) for address in addresses]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + CARD_WITHIN
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return tuple(_card(address, sights.get(address), unread) for address in addresses)


def _card(address: str, sight: Sight | None, unread: list[str]) -> EnvironmentCard:
    if sight is None:
        unread.append(f"card {address} cannot be read: its driver has not come back within {CARD_WITHIN:.0f} s")
        return EnvironmentCard("unknown", "unknown")
    identity, reading = sight.identity, sight.reading
    if identity is None:
        unread.append(f"card {address} cannot be read: there is no such card")
        return EnvironmentCard("unknown", "unknown")
    pci = f"{identity.vendor:04x}:{identity.device:04x}"
    name, module = identity.name or pci, identity.driver or "none"
    if isinstance(reading, Unknown):
        unread.append(f"card {address} cannot be read: {reading.reason}")
        return EnvironmentCard(name, module, pci)
    known = _details(reading.value)
    firmware = tuple((key, known[key]) for key in _FIRMWARE_DETAILS if key in known)
    if not firmware:
        why = next(
            (
                one.reading.reason
                for one in reading.value.details
                if one.name == "firmware" and isinstance(one.reading, Unknown)
            ),
            "its driver does not tell",
        )
        unread.append(f"the firmware of card {address} cannot be read: {why}")
    subsystem, version = known.get("subsystem"), known.get("driver", "")
    return EnvironmentCard(
        known.get("name", name),
        version if version.startswith(module) else f"{module} {version}".strip(),
        pci if subsystem is None else f"{pci} ({subsystem})",
        firmware,
    )


def _details(reading: CardReading) -> dict[str, str]:
    return {one.name: one.reading.value for one in reading.details if isinstance(one.reading, Known)}
