"""What is done on the card, a scene each: it returns the figures that it saw, and raises where arcops failed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

from tools.card import card
from tools.card.instance import Instance, Said, child_of, until
from tools.card.requests import Stream

START = 400.0
"""Seconds that a model of 9B may take to serve: 40 with warm compile caches, 180 without."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Two instances of arcops on one card, and their profiles."""

    card: str
    first: Instance
    second: Instance
    url: str
    target: str
    """The profile that most scenes run, and what it calls its model (the same name)."""
    other: str
    """The profile that is switched to."""
    baseline: int
    """MiB in use on the idle card."""

    @property
    def both(self) -> tuple[Instance, Instance]:
        return self.first, self.second

    def serve(self, profile: str) -> float:
        """Switch, wait until it serves; seconds."""
        began = time.monotonic()
        said = self.first.arcops("switch", profile, "--now", within=START)
        check(said.code == 0, f"switch {profile}: exit {said.code}: {said.err}")
        return time.monotonic() - began

    def have_target(self) -> None:
        """Let the target serve, if it does not."""
        status = self.first.status()
        if status.phase != "serving" or status.backend is None or status.backend.profile != self.target:
            self.serve(self.target)

    def engine(self) -> int:
        """The pid of EngineCore, from the pid that the daemon gives for the API server."""
        backend = self.first.status().backend
        check(backend is not None and backend.pid is not None, "there is no backend")
        assert backend is not None
        assert backend.pid is not None
        return until(lambda: child_of(cast("int", backend.pid), "Engine"), 10, "the engine's process")[0]


class FailedError(Exception):
    """arcops did not do what it promises."""


def check(held: bool, otherwise: str) -> None:
    if not held:
        raise FailedError(otherwise)


def reader(stage: Stage) -> Mapping[str, object]:
    """The reader against nvidia-smi: a foreign holder of known size, before anything of ours runs."""
    with card.Foreigner(2) as foreign:
        truth, seen = card.truth(), card.holders(stage.card)
        found = {pid: client.resident_bytes for client in seen for pid in client.pids}
        check(foreign.pid in truth.by_pid, f"nvidia-smi does not name {foreign.pid}: {truth.by_pid}")
        mib = (found.get(foreign.pid) or 0) // card.MIB
        check(mib == truth.by_pid[foreign.pid], f"{mib} MiB here, {truth.by_pid[foreign.pid]} by nvidia-smi")
        refused = stage.first.arcops("switch", stage.target, "--now", "--no-rollback", within=60)
        check(refused.code == 5, f"a held card was not refused: exit {refused.code}: {refused.err}")
        check(str(foreign.pid) in refused.err, f"the holder is not named: {refused.err}")
    return {"mib": mib, "nvidia_smi_mib": truth.by_pid[foreign.pid], "refusal": refused.err, "seconds": refused.seconds}


def heir(stage: Stage) -> Mapping[str, object]:
    """A holder that has ended while its forked child keeps the memory: the child is named."""
    code = (
        "import os, sys, time, torch\n"
        "held = torch.zeros(1 << 30, dtype=torch.uint8, device='cuda')\n"
        "child = os.fork()\n"
        "if child == 0:\n    time.sleep(600)\n"
        "print(child, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    try:
        named = card.holders(stage.card)
        check(any(child in one.pids for one in named), f"the child {child} of {parent.pid} is not named: {named}")
        return {"dead": parent.pid, "child": child, "named": [list(one.pids) for one in named]}
    finally:
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()


def lock_race(stage: Stage) -> Mapping[str, object]:
    """Two daemons are told to serve on the same card at once: one does, the other refuses and says who has the lock."""
    began = time.monotonic()

    def order(instance: Instance) -> Said:
        return instance.arcops("switch", stage.target, "--now", "--no-rollback")

    with ThreadPoolExecutor(2) as pool:
        said = dict(zip(stage.both, pool.map(order, stage.both), strict=True))
    served = time.monotonic() - began
    codes = sorted(one.code for one in said.values())
    check(codes == [0, 5], f"exit codes {codes}: {[one.err for one in said.values()]}")
    first_won = said[stage.first].code == 0
    winner, loser = stage.both if first_won else stage.both[::-1]
    servers = list(card.truth().by_pid)
    check(len(servers) == 1, f"more than one engine on the card: {servers}")
    check("lock" in said[loser].err, f"the lock is not named: {said[loser].err}")
    check(loser.arcops("stop", within=120).code == 0, "the loser does not take a stop")
    if winner is not stage.first:
        check(winner.arcops("stop", within=120).code == 0, "the winner does not stop")
    return {"serving_s": served, "refused_s": said[loser].seconds, "winner": winner.name, "refusal": said[loser].err}


def attribution(stage: Stage) -> Mapping[str, object]:
    """Whose memory it is: EngineCore's, which is ours; nvidia-smi says the same."""
    stage.have_target()
    truth, seen, engine = card.truth(), card.holders(stage.card), stage.engine()
    pids = {pid for one in seen for pid in one.pids}
    check(pids == {engine} == set(truth.by_pid), f"reader {pids}, engine {engine}, nvidia-smi {truth.by_pid}")
    check(engine in stage.first.launched(), "the engine is not known as ours")
    mib = sum(one.resident_bytes or 0 for one in seen) // card.MIB
    answered = Stream(stage.url, stage.target, 256).start()
    answered.join(120)
    check(answered.ended == "length", f"a stream ended with {answered.ended}")
    return {
        "mib": mib,
        "nvidia_smi": truth.by_pid,
        "used_mib": truth.used,
        "ttft_s": answered.ttft,
        "rate": answered.rate,
    }


def adoption(stage: Stage) -> Mapping[str, object]:
    """The supervisor is killed in the middle of a stream: the next one adopts, and the stream goes on to its end."""
    stage.have_target()
    stream = Stream(stage.url, stage.target, 3000).start()
    until(lambda: len(stream.stamps) > 50, 60, "the stream flows")
    engine = stage.engine()
    stage.first.end(signal.SIGKILL)
    answered = stage.first.start()
    status, _ = stage.first.wait_for("serving", within=60)
    check(status.backend is not None and status.backend.adopted, "the backend was not adopted")
    check(not stream.ended, f"the stream had ended before: {stream.ended}")
    stream.join(120)
    check(stream.ended == "length", f"the stream was cut: {stream.ended}")
    check(stage.engine() == engine, "it is another engine")
    return {"daemon_answers_s": answered, "tokens": len(stream.stamps), "longest_gap_s": stream.longest_gap}


def switch(stage: Stage) -> Mapping[str, object]:
    """To another profile and back, a stream open at the start: it gets its drain."""
    stage.have_target()
    stream = Stream(stage.url, stage.target, 500).start()
    until(lambda: len(stream.stamps) > 5, 60, "the stream flows")
    began = time.monotonic()
    said = stage.first.arcops("switch", stage.other, within=START)
    there = time.monotonic() - began
    check(said.code == 0, f"switch {stage.other}: exit {said.code}: {said.err}")
    check(stream.ended == "length", f"the stream was cut by an orderly switch: {stream.ended}")
    other = Stream(stage.url, stage.other, 256).start()
    other.join(120)
    check(other.ended == "length", f"a stream ended with {other.ended}")
    status = stage.first.status()
    found = status.rates.speculation
    back = stage.serve(stage.target)
    return {
        "there_s": there,
        "back_s": back,
        "ttft_s": other.ttft,
        "tokens_per_step": None if found is None else found.tokens_per_step,
    }


def stray_engine(stage: Stage) -> Mapping[str, object]:
    """SIGKILL of the API server leaves EngineCore with all of its memory: it is ended, and the profile serves again."""
    stage.have_target()
    engine = stage.engine()
    backend = stage.first.status().backend
    assert backend is not None
    assert backend.pid is not None
    held = card.truth().used
    began = time.monotonic()
    os.kill(backend.pid, signal.SIGKILL)
    freed = card.until_free(stage.baseline)
    check(freed is not None, "the memory did not come back")
    check(not os.path.exists(f"/proc/{engine}"), "the engine is still there")
    stage.first.wait_for("serving", within=START)
    again = time.monotonic() - began
    events = [one for one in cast("Sequence[Mapping[str, object]]", _events(stage)) if one.get("cause")]
    return {
        "held_mib": held,
        "memory_free_s": freed,
        "serving_again_s": again,
        "causes": [one["cause"] for one in events],
    }


def _events(stage: Stage) -> object:
    said = stage.first.json("events")
    return cast("Mapping[str, object]", said)["events"] if isinstance(said, dict) else said


def stop_with_stream(stage: Stage) -> Mapping[str, object]:
    """A stop with a stream open: vLLM's API server does not leave by itself, and the stop ends all the same."""
    stage.have_target()
    stream = Stream(stage.url, stage.target, 20_000).start()
    until(lambda: len(stream.stamps) > 5, 60, "the stream flows")
    began = time.monotonic()
    said = stage.first.arcops("stop", "--now", within=180)
    took = time.monotonic() - began
    check(said.code == 0, f"stop: exit {said.code}: {said.err}")
    check(not stage.first.launched(), f"processes are left: {stage.first.launched()}")
    left = card.truth()
    check(left.used <= stage.baseline + 16, f"{left.used} MiB are still held")
    stream.join(10)
    return {"stop_s": took, "the stream": stream.ended}


def release(stage: Stage) -> Mapping[str, object]:
    """How soon the memory is back after the engine's SIGTERM and SIGKILL."""
    found: dict[str, object] = {}
    for name, sig in (("SIGTERM", signal.SIGTERM), ("SIGKILL", signal.SIGKILL)):
        with card.Foreigner(32) as foreign:
            os.kill(foreign.pid, sig)
            found[name] = card.until_free(stage.baseline)
    return found


def out_of_memory(stage: Stage) -> Mapping[str, object]:
    """A start that finds too little memory is diagnosed: another holder is allowed to stay, and vLLM gives up."""
    with card.Foreigner(100):
        said = stage.first.arcops("switch", "crowded", "--now", "--no-rollback", within=START)
    check(said.code == 7, f"exit {said.code}: {said.err}")
    failure = stage.first.status().failure
    check(failure is not None, "the failure is not known")
    assert failure is not None
    stage.first.arcops("stop", within=120)
    return {"cause": failure.cause, "summary": failure.summary, "hint": failure.hint, "evidence": failure.evidence}


SCENES: Mapping[str, Callable[[Stage], Mapping[str, object]]] = {
    "reader": reader,
    "heir": heir,
    "release": release,
    "lock_race": lock_race,
    "attribution": attribution,
    "adoption": adoption,
    "switch": switch,
    "stray_engine": stray_engine,
    "stop_with_stream": stop_with_stream,
    "out_of_memory": out_of_memory,
}
"""In the order that costs the fewest starts: each makes what it needs."""
