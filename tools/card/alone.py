"""The scenes without a backend of ours: the reader, foreign holders, and how soon memory is free."""

import os
import signal
import statistics
import subprocess
import sys

from tools.card import card
from tools.card.instance import until
from tools.card.stage import Seen, Stage, check

TIMES = 5
"""How often a release is timed with each signal."""
CONTEXT = 1024
"""MiB that a CUDA context and torch's own buffers may take beside what was asked for."""

LEAVES_A_CHILD = (
    "import os, sys, time, torch\n"
    "held = torch.zeros(1 << 30, dtype=torch.uint8, device='cuda')\n"
    "child = os.fork()\n"
    "if child == 0:\n    time.sleep(600)\n"
    "print(child, flush=True)\n"
    "time.sleep(600)\n"
)


def measures_idle(stage: Stage) -> Seen:
    """Every measure against nvidia-smi on the idle card, and what arcops shows of it."""
    seen = stage.compared("idle")
    stage.keep_views("idle")
    return seen


def measures_busy(stage: Stage) -> Seen:
    """The same while somebody multiplies matrices: clock, power, temperature and throttling have something to say."""
    with card.Foreigner(2, busy=True):
        until(lambda: card.figures()["utilization.gpu"] == "100", 20, "the card is busy", every=0.2)
        return stage.compared("busy")


def health(stage: Stage) -> Seen:
    """What `doctor` says of the idle card: it lets a child of the runtime's Python multiply on it."""
    said = stage.first.arcops("doctor", "--json", within=120)
    stage.records.keep("idle-doctor.json", said.out)
    check(said.out.strip().startswith(("{", "[")), f"doctor: exit {said.code}: {said.err}")
    return {"exit": said.code, "seconds": said.seconds}


def foreign(stage: Stage) -> Seen:
    """A foreign holder of known size: as nvidia-smi says it, and refused by name."""
    with card.Foreigner(2) as holder:
        truth, held = card.truth(), stage.holders()
        check(holder.pid in truth.by_pid, f"nvidia-smi does not name {holder.pid}: {truth.by_pid}")
        check(holder.pid in held, f"arcops does not name {holder.pid}: {held}")
        one = held[holder.pid]
        mib = (one.resident or 0) // card.MIB
        check(mib == truth.by_pid[holder.pid], f"{mib} MiB here, {truth.by_pid[holder.pid]} by nvidia-smi")
        check(2048 <= mib <= 2048 + CONTEXT, f"{mib} MiB of a process that has 2,048 and a context")
        check(not one.ours, "it is called ours")
        stage.keep_views("foreign")
        refused = stage.first.arcops("switch", stage.target, "--now", "--no-rollback", within=60)
        check(refused.code == 5, f"a held card was not refused: exit {refused.code}: {refused.err}")
        for part in (str(holder.pid), "python3", f"{mib:,} MiB"):
            check(part in refused.err, f"{part!r} is not named: {refused.err}")
    stage.first.arcops("stop", within=60)
    return {
        "mib": mib,
        "nvidia_smi_mib": truth.by_pid[holder.pid],
        "refusal": refused.err,
        "refused_s": refused.seconds,
    }


def heir(stage: Stage) -> Seen:
    """A holder that has ended while its forked child keeps the memory: the child is named."""
    parent = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", LEAVES_A_CHILD],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    try:
        truth, held = card.truth(), stage.holders()
        check(child in held, f"the child {child} of {parent.pid} is not named: {held}")
        check(parent.pid not in held, f"the dead {parent.pid} is named: {held}")
        stage.keep_views("heir")
        refused = stage.first.arcops("switch", stage.target, "--now", "--no-rollback", within=60)
        check(refused.code == 5 and str(child) in refused.err, f"exit {refused.code}: {refused.err}")
    finally:
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()
    freed = card.until_free(stage.baseline)
    stage.first.arcops("stop", within=60)
    check(freed is not None, "the memory did not come back with the child's end")
    return {
        "dead": parent.pid,
        "nvidia_smi": truth.by_pid,
        "child": child,
        "mib": (held[child].resident or 0) // card.MIB,
        "refusal": refused.err,
        "free_ms": round((freed or 0) * 1000),
    }


def release(stage: Stage) -> Seen:
    """How soon 32 GiB are back after a holder's SIGTERM and SIGKILL, milliseconds."""
    found: dict[str, object] = {}
    for name, sig in (("SIGTERM", signal.SIGTERM), ("SIGKILL", signal.SIGKILL)):
        took: list[int] = []
        for _ in range(TIMES):
            with card.Foreigner(32) as holder:
                os.kill(holder.pid, sig)
                freed = card.until_free(stage.baseline)
            check(freed is not None, f"the memory did not come back after {name}")
            took.append(round((freed or 0) * 1000))
        found[name] = {"ms": took, "median_ms": statistics.median(took), "longest_ms": max(took)}
    return found
