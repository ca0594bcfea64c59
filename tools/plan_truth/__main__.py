"""Starts real vLLM on the CPU once for each case, and holds its own count of the cache against the plan's.

A case ends as soon as vLLM has said how large its cache is. With --out each line is kept, for the tests.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from arcops.core.budget.cache import shape_of
from arcops.core.budget.demand import Checkpoint, Remembered, demand_of
from arcops.core.budget.model import model_of
from arcops.core.budget.wants import wants_of
from arcops.core.budget.weights import Weights
from arcops.machine.checkpoint import read_config
from tools.own import runtime, say
from tools.plan_truth.cases import Case, cases

WITHIN = 240.0
"""Seconds that a start may take until the line comes; it takes some fifteen."""
REPORTED = re.compile(r"GPU KV cache size: ([\d,]+) tokens")
_NOTHING = Weights((), ())


@dataclass(frozen=True, slots=True)
class Found:
    """One case: what vLLM said, and what was planned."""

    case: Case
    argv: tuple[str, ...]
    """With the models' directory as `MODELS`."""
    reported: int | None
    """Tokens; None where vLLM did not come so far."""
    planned: int
    said: str
    """vLLM's last error, where it did not."""


def argv_of(case: Case, models: str) -> tuple[str, ...]:
    """What `vllm` is told, without the address."""
    speculative = case.speculative(models)
    extra = () if speculative is None else ("--speculative-config", json.dumps(speculative))
    return (
        "vllm",
        "serve",
        f"{models}/{case.model}",
        *("--max-model-len", str(case.context), "--kv-cache-memory-bytes", str(case.pool)),
        *("--max-num-seqs", "4", "--enforce-eager"),
        *case.flags,
        *extra,
    )


def planned(argv: Sequence[str], folder_of: dict[str, str] | None = None) -> int:
    """Tokens, as the plan counts them. `folder_of` says where a checkpoint is, by the name that is in `argv`."""
    wants = wants_of(argv)
    places = folder_of or {}

    def checkpoint(name: str) -> Checkpoint:
        return Checkpoint(model_of(read_config(places.get(name, name))), _NOTHING)

    drafting = wants.drafting
    draft = None if drafting is None or drafting.draft is None else checkpoint(drafting.draft)
    demand = demand_of(wants, "cpu", checkpoint(wants.model), draft, Remembered(), None)
    shape = shape_of(demand.layers, demand.settings)
    if shape is None or wants.pool is None:
        raise ValueError("a case has a cache, and its size")
    return shape.reported_tokens(wants.pool)


def reported(vllm: Path, argv: Sequence[str]) -> tuple[int | None, str]:
    """Start it, and read what it says of its cache; and its last error, where it says nothing of it."""
    command = [str(vllm), *argv[1:], "--host", "127.0.0.1", "--port", "0"]
    # In a session of its own, so that its workers can be ended with it.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, "VLLM_CPU_CI_ENV": "1"},
    )
    deadline, last = time.monotonic() + WITHIN, ""
    try:
        for line in process.stdout or ():
            found = REPORTED.search(line)
            if found is not None:
                return int(found[1].replace(",", "")), ""
            if "Error" in line:
                last = line.strip()[-200:]
            if time.monotonic() > deadline:
                return None, f"nothing within {WITHIN:.0f} s"
        return None, last
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> int:
    """1 where a count differs from vLLM's."""
    parser = argparse.ArgumentParser(prog="python -m tools.plan_truth", description=__doc__)
    parser.add_argument("--out", type=Path, help="keep each case as a line of JSON")
    parser.add_argument("--only", type=int, help="the first so many cases")
    arguments = parser.parse_args()
    here = runtime()
    models = str(here.models)
    wrong = 0
    for case in cases()[: arguments.only]:
        argv = argv_of(case, models)
        count, error = reported(here.vllm, argv)
        found = Found(case, tuple(word.replace(models, "MODELS") for word in argv), count, planned(argv), error)
        wrong += found.reported != found.planned
        verdict = "exact" if found.reported == found.planned else "DIFFERS"
        say(f"{verdict}  vLLM {found.reported}  plan {found.planned}  {' '.join(found.argv[2:])}  {found.said}")
        if arguments.out is not None:
            with arguments.out.open("a") as file:
                file.write(json.dumps({"argv": found.argv, "reported": found.reported, "said": found.said}) + "\n")
    say(f"{len(cases()[: arguments.only]) - wrong} exact, {wrong} not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
