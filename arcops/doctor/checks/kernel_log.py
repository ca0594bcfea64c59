"""Can the kernel's log be read? A card's driver says there that it was reset or is wedged."""

import os
from dataclasses import dataclass

from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Outcome, Verdict, ok
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight, read_text


@dataclass(frozen=True, slots=True)
class Facts:
    user: str
    kmsg: str
    """Why /dev/kmsg does not open; empty where it does."""
    journal: str
    """Why the journal shows nothing of it; empty where it does."""
    restricted: str | None
    """kernel.dmesg_restrict, as the kernel shows it."""


def probe(sight: Sight) -> Facts:
    kmsg = ""
    try:
        os.close(os.open(f"{sight.roots.dev}/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        kmsg = error.strerror or str(error)
    journal = ""
    if kmsg:
        try:
            answer = sight.ask(("journalctl", "--dmesg", "--lines=1", "--quiet", "--no-pager"))
            journal = "" if answer.code == 0 and answer.out.strip() else answer.complaint if answer.code else "empty"
        except ArcopsError as error:
            journal = error.message
    return Facts(sight.user, kmsg, journal, read_text(sight.roots.proc, "sys/kernel/dmesg_restrict"))


def judge(facts: Facts) -> Outcome:
    restrict = f"kernel.dmesg_restrict={facts.restricted or 'unknown'}"
    if not facts.kmsg:
        return ok("/dev/kmsg opens", restrict)
    if not facts.journal:
        return ok("the journal shows the kernel's log", f"/dev/kmsg: {facts.kmsg}", restrict)
    evidence = (f"/dev/kmsg: {facts.kmsg}", f"journalctl --dmesg: {facts.journal}", restrict)
    summary = "the kernel's log cannot be read: that a card was reset or is wedged will not be seen"
    return Outcome(
        Verdict.WARNING, summary, evidence, f"sudo usermod -aG systemd-journal {facts.user}, and log in anew"
    )


KERNEL_LOG = Check("kernel-log", "Can the kernel's log be read?", lambda sight: judge(probe(sight)))
