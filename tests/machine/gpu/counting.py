"""A census of one card in a planted /proc."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from arcops.core.cards.holders import Census
from arcops.core.quantity import Reading, Unknown
from arcops.machine.gpu import CardIdentity
from arcops.machine.gpu.base import Roots
from arcops.machine.gpu.drm import DrmCensus
from tests.trees.procfs import B70, SECOND, Process, Procfs

ARC = CardIdentity(B70, 0x8086, 0xE223, "xe", "Intel Arc Pro B70", "/dev/dri/renderD128")
OTHER = replace(ARC, address=SECOND, render_node="/dev/dri/renderD129")
NOT_SAID = Unknown("needs CAP_PERFMON", 1.0)


def census(
    root: Path,
    processes: Collection[Process],
    *,
    used: Reading[int] = NOT_SAID,
    ours: Collection[int] = (),
    among: Collection[int] | None = None,
    init: bool = True,
    card: CardIdentity = ARC,
) -> Census:
    tree = Procfs.of(root, tuple(processes), init=init)
    (found,) = DrmCensus(tree.calls()).census(
        [card], 1.0, lambda: frozenset(ours), lambda _: used, among, Roots(proc=str(root))
    )
    return found
