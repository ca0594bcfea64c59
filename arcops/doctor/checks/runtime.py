"""Does the vLLM of every profile start far enough to say its version?"""

import os
import time
from dataclasses import dataclass

from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Outcome, Verdict, ok, together
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.machine import environment, managers

WITHIN = 60.0
"""Seconds for one: it imports torch, from a cold disk."""


@dataclass(frozen=True, slots=True)
class Facts:
    vllm: str
    version: str
    """What it printed last; empty where it failed."""
    trouble: str
    seconds: float
    setup: str | None


def probe(sight: Sight, vllm: str, setup: str | None, extra: tuple[tuple[str, str], ...]) -> Facts:
    began = time.monotonic()
    version, trouble = "", ""
    try:
        base = dict(os.environ) if setup is None else environment.sourced(setup, os.environ, WITHIN)
        answer = managers.ask((vllm, "--version"), {**base, **dict(extra)}, WITHIN)
        lines = [line.strip() for line in answer.out.splitlines() if line.strip()]
        if answer.code == 0 and lines:
            version = lines[-1]
        else:
            trouble = answer.complaint
    except ArcopsError as error:
        trouble = error.message
    return Facts(vllm, version, trouble, time.monotonic() - began, setup)


def judge(facts: Facts) -> Outcome:
    after = f"after {facts.seconds:.1f} s" + (f", with {facts.setup}" if facts.setup else "")
    if facts.version:
        return ok(f"{facts.vllm} is {facts.version}", after)
    return Outcome(
        Verdict.PROBLEM, f"{facts.vllm} --version fails: {facts.trouble}", (after,), f"{facts.vllm} --version"
    )


def runtime(sight: Sight) -> Outcome:
    vllms = sight.usable().vllms
    found = [judge(probe(sight, *one)) for one in vllms]
    return together(found) if found else ok("no profile can run here, so no vLLM is needed")


RUNTIME = Check("runtime", "Does the vLLM of every profile say its version?", runtime, within=3 * WITHIN)
