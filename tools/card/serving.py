"""The scenes with real vLLM on the card: who may have it, whose memory it is, and how it is given back."""

import os
import signal
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import cast

from arcops import wire
from tools.card import card
from tools.card.instance import Instance, Said, until
from tools.card.requests import Stream
from tools.card.stage import START, Seen, Stage, check

ROUNDS = 4
"""Races for the card; the last one's winner goes on to serve."""
STREAMS = 8
LAUNCHED = frozenset({"starting", "checking", "serving", "suspect"})
"""Phases in which a backend of an instance lives."""


def lock_race(stage: Stage) -> Seen:
    """Two daemons are told to serve on the same card at once, again and again: never two do.

    Both servers would come up, as two bare ones do: they ask for three fifths of the card each.
    """
    rounds = [_race(stage, last=number == ROUNDS - 1) for number in range(ROUNDS)]
    check(all(one["winners"] == 1 for one in rounds), f"rounds without one winner: {rounds}")
    return {"rounds": rounds, "serving_s": rounds[-1]["serving_s"]}


def _race(stage: Stage, *, last: bool) -> dict[str, object]:
    """One race. Whoever wins the last goes on to serve; the first instance has a start of half a second there."""
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        said = {pool.submit(_order, stage.first, stage.other): stage.first}
        time.sleep(0.5 if last else 0.0)
        said[pool.submit(_order, stage.second, stage.other)] = stage.second
        lost = wait(said, timeout=START, return_when=FIRST_COMPLETED).done
        check(len(lost) == 1, f"{len(lost)} of two orders ended at once: {[one.result() for one in lost]}")
        loser, refusal = _only(lost, said)
        check(refusal.code == 5, f"the first to end was no refusal: exit {refusal.code}: {refusal.err}")
        check("lock" in refusal.err, f"the lock is not named: {refusal.err}")
        winner = next(one for one in stage.both if one is not loser)
        alive = until(lambda: _alive(stage), 30, "a backend is launched")[0]
        check(alive == [winner.name], f"backends live of {alive}")
        if not last:
            check(winner.arcops("stop", "--now", within=180).code == 0, "the winner does not stop")
        (other,) = set(said) - lost
        won = other.result(timeout=START)
    served = time.monotonic() - began
    check(loser.arcops("stop", within=120).code == 0, "the loser does not take a stop")
    if last:
        check(won.code == 0, f"the winner does not serve: exit {won.code}: {won.err}")
        engines = list(card.truth().by_pid)
        check(len(engines) == 1, f"not one engine on the card: {engines}")
        if winner is not stage.first:
            check(winner.arcops("stop", "--now", within=180).code == 0, "the winner does not stop")
    else:
        check(card.until_free(stage.baseline) is not None, "a stopped start left memory held")
    return {
        "winners": len(alive),
        "winner": winner.name,
        "refused_s": refusal.seconds,
        "refusal": refusal.err,
        "serving_s": served if last else None,
    }


def _alive(stage: Stage) -> list[str]:
    return [one.name for one in stage.both if one.status().phase in LAUNCHED]


def _order(instance: Instance, profile: str) -> Said:
    return instance.arcops("switch", profile, "--now", "--no-rollback", within=START)


def _only(done: "set[Future[Said]]", of: "dict[Future[Said], Instance]") -> tuple[Instance, Said]:
    (one,) = done
    return of[one], one.result()


def second_server(stage: Stage) -> Seen:
    """A second server is refused while ours runs, and ours does not notice."""
    stage.serving()
    engine = stage.engine()
    refused = stage.second.arcops("switch", stage.other, "--now", "--no-rollback", within=60)
    check(refused.code == 5, f"it was not refused: exit {refused.code}: {refused.err}")
    check(set(card.truth().by_pid) == {engine}, f"not the engine {engine} alone: {card.truth().by_pid}")
    check(stage.first.status().phase == "serving", "ours does not serve any more")
    stage.second.arcops("stop", within=60)
    return {"refused_s": refused.seconds, "refusal": refused.err}


def attribution(stage: Stage) -> Seen:
    """Whose memory it is, a foreigner beside ours: EngineCore's is ours, the other's is not; to nvidia-smi's MiB."""
    stage.serving()
    engine = stage.engine()
    with card.Foreigner(2) as holder:
        truth, held = card.truth(), stage.holders()
        mib = {pid: (one.resident or 0) // card.MIB for pid, one in held.items()}
        stage.keep_views("shared")
        said = {pid: one.ours for pid, one in held.items()}
        check(said == {engine: True, holder.pid: False}, f"ours by pid: {said}, the engine is {engine}")
        check(mib == truth.by_pid, f"MiB by pid here {mib}, by nvidia-smi {truth.by_pid}")
        check(engine in stage.first.launched(), "the engine is not one of those that were launched")
        rest = truth.used - sum(mib.values())
    return {
        "ours_mib": mib[engine],
        "foreign_mib": mib[holder.pid],
        "nvidia_smi": truth.by_pid,
        "used_mib": truth.used,
        "nobodys_mib": rest,
    }


def load(stage: Stage) -> Seen:
    """Under a load: every measure against nvidia-smi, and what status, gpu and /metrics show."""
    model = stage.serving()
    streams = [Stream(stage.url, model, 2500).start() for _ in range(STREAMS)]
    until(lambda: all(len(one.stamps) > 100 for one in streams), 120, "all streams flow")
    stage.keep_views("serving")
    seen = stage.compared("serving")
    (glance,) = stage.first.status().cards
    check(not any(one.ended for one in streams), "the load ended before it was looked at")
    used = card.truth().used
    for one in streams:
        one.join(120)
    check(all(one.ended == "length" for one in streams), f"streams ended: {[one.ended for one in streams]}")
    _check_glance(glance, used)
    return {
        **seen,
        "streams": STREAMS,
        "tokens_per_s": round(sum(one.rate or 0 for one in streams)),
        "glance": {name: getattr(glance, name) for name in glance.__struct_fields__},
    }


def _check_glance(glance: wire.CardGlance, used: int) -> None:
    """What a status says of a card that serves a load cannot be these."""
    mib = (glance.memory_used or 0) / card.MIB
    check(abs(mib - used) <= 64, f"the status has {mib:,.0f} MiB in use, nvidia-smi {used:,}")
    check((glance.busy or 0) > 0.2, f"busy {glance.busy} under a load")
    check((glance.power or 0) > 100, f"{glance.power} W under a load")
    check((glance.clock or 0) > 500, f"{glance.clock} MHz under a load")


def adoption(stage: Stage) -> Seen:
    """The supervisor is killed in the middle of a stream: the next one adopts, and the stream goes on to its end."""
    stream = Stream(stage.url, stage.serving(), 3000).start()
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
    check(stage.holders()[engine].ours, "an adopted engine's memory is not called ours")
    return {"daemon_answers_s": answered, "tokens": len(stream.stamps), "longest_gap_s": stream.longest_gap}


def switch(stage: Stage) -> Seen:
    """To the other profile, a stream open at the start: it gets its drain."""
    here = stage.serving()
    there = stage.other if here == stage.target else stage.target
    stream = Stream(stage.url, here, 500).start()
    until(lambda: len(stream.stamps) > 5, 60, "the stream flows")
    began = time.monotonic()
    said = stage.first.arcops("switch", there, within=START)
    took = time.monotonic() - began
    check(said.code == 0, f"switch {there}: exit {said.code}: {said.err}")
    check(stream.ended == "length", f"the stream was cut by an orderly switch: {stream.ended}")
    answered = Stream(stage.url, there, 256).start()
    answered.join(120)
    check(answered.ended == "length", f"a stream ended with {answered.ended}")
    found = stage.first.status().rates.speculation
    return {
        "from": here,
        "to": there,
        "took_s": took,
        "ttft_s": answered.ttft,
        "rate": answered.rate,
        "tokens_per_step": None if found is None else found.tokens_per_step,
    }


def stray_engine(stage: Stage) -> Seen:
    """SIGKILL of the API server leaves EngineCore with all of its memory: it is named and ended; it serves again."""
    stage.have_target()
    engine, server = stage.engine(), stage.server()
    held = card.truth().used
    before = stage.keep_events("stray")[-1]["id"]
    began = time.monotonic()
    os.kill(server, signal.SIGKILL)
    left = stage.holders().get(engine)
    check(card.until_free(stage.baseline) is not None, "the memory did not come back")
    freed = time.monotonic() - began
    check(not os.path.exists(f"/proc/{engine}"), "the engine is still there")
    status, _ = stage.first.wait_for("serving", within=START)
    again = time.monotonic() - began
    events = [one for one in stage.keep_events("stray") if cast("int", one["id"]) > cast("int", before)]
    return {
        "held_mib": held,
        "named_while_left": None
        if left is None
        else {"ours": left.ours, "mib": (left.resident or 0) // card.MIB, "users": [one.command for one in left.users]},
        "memory_free_s": freed,
        "serving_again_s": again,
        "served_by_another": status.backend is not None and status.backend.pid != server,
        "causes": sorted({str(one["cause"]) for one in events if one.get("cause")}),
        "reasons": [str(one["reason"]) for one in events if one["kind"] == "phase"],
    }


def stop_with_stream(stage: Stage) -> Seen:
    """A stop with a stream open: vLLM's API server does not leave by itself, and the stop ends all the same."""
    stream = Stream(stage.url, stage.serving(), 20_000).start()
    until(lambda: len(stream.stamps) > 5, 60, "the stream flows")
    began = time.monotonic()
    said = stage.first.arcops("stop", "--now", within=180)
    took = time.monotonic() - began
    check(said.code == 0, f"stop: exit {said.code}: {said.err}")
    check(not stage.first.launched(), f"processes are left: {stage.first.launched()}")
    left = card.truth()
    check(left.used <= stage.baseline + 16, f"{left.used} MiB are still held")
    stage.keep_views("stopped")
    stream.join(10)
    return {"stop_s": took, "the stream": stream.ended}


def out_of_memory(stage: Stage) -> Seen:
    """A start that finds too little memory is diagnosed: another holder is allowed to stay, and vLLM gives up."""
    with card.Foreigner(100):
        said = stage.first.arcops("switch", "crowded", "--now", "--no-rollback", within=START)
    check(said.code == 7, f"exit {said.code}: {said.err}")
    failure = stage.first.status().failure
    check(failure is not None, "the failure is not known")
    assert failure is not None
    check(failure.cause == "out_of_memory", f"it is called {failure.cause}: {failure.summary}")
    stage.first.arcops("stop", within=120)
    return {"cause": failure.cause, "summary": failure.summary, "hint": failure.hint, "evidence": failure.evidence}
