"""Does the supervisor run, as the service, and is it this arcops?"""

from dataclasses import dataclass

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Outcome, Verdict, ok
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.service import same
from arcops.service.same import Sameness
from arcops.service.state import ServiceState
from arcops.service.units import Unit

MANY = 3
"""Restarts by systemd from which on they are worth a warning."""


@dataclass(frozen=True, slots=True)
class Facts:
    unit: Unit
    state: ServiceState | None
    trouble: str
    daemon: "wire.DaemonInfo | str"
    """What the daemon says, or why it does not."""
    sameness: Sameness


def probe(sight: Sight) -> Facts:
    status, service = sight.status(), sight.service()
    daemon = status if isinstance(status, str) else status.daemon
    failed = isinstance(service, ArcopsError)
    return Facts(
        unit=sight.unit,
        state=None if failed else service,
        trouble=service.message if failed else "",
        daemon=daemon,
        sameness=same.of_daemon(daemon),
    )


def judge(facts: Facts) -> Outcome:
    state, daemon = facts.state, facts.daemon
    evidence = _evidence(facts)
    if isinstance(daemon, str):
        return _silent(facts, evidence)
    if facts.sameness.same is False:
        return Outcome(Verdict.PROBLEM, facts.sameness.words, evidence, _restart(facts.unit))
    if state is None:
        return ok(f"arcopsd answers (pid {daemon.pid}); whether as a service cannot be asked", *evidence)
    if state.main_pid != daemon.pid:
        verdict = Verdict.WARNING if state.installed else Verdict.OK
        summary = f"arcopsd (pid {daemon.pid}) answers, and does not run as {facts.unit.name}"
        remedy = f"end it, and then: {facts.unit.command('start')}" if state.installed else ""
        return Outcome(verdict, summary, evidence, remedy)
    if state.restarts is not None and state.restarts >= MANY:
        summary = f"{facts.unit.name} runs, and systemd had to restart it {state.restarts} times"
        return Outcome(Verdict.WARNING, summary, evidence, facts.unit.command("logs"))
    return ok(f"{facts.unit.name} runs, and answers", *evidence)


def _restart(unit: Unit) -> str:
    """How this arcops gets to be the one that runs, without harm to the backend."""
    keep = "arcops service restart --keep-backend"
    return f"{keep}, and then: {unit.command('restart')}" if unit.system else keep


def _silent(facts: Facts, evidence: tuple[str, ...]) -> Outcome:
    state, logs = facts.state, facts.unit.command("logs")
    if state is None:
        return Outcome(Verdict.UNKNOWN, "no arcopsd answers; whether there is a service cannot be asked", evidence)
    if state.active == "failed":
        summary = f"{facts.unit.name} has failed ({state.result})"
        return Outcome(Verdict.PROBLEM, summary, evidence, f"{logs}; then: {facts.unit.command('start')}")
    if state.active in ("active", "reloading"):
        return Outcome(Verdict.PROBLEM, f"{facts.unit.name} runs, and does not answer", evidence, logs)
    if state.runs:
        return Outcome(Verdict.WARNING, f"{facts.unit.name} is {state.active}", evidence, f"{logs} -f")
    remedy = facts.unit.command("start") if state.installed else "arcops service install --enable --now --linger"
    return Outcome(Verdict.WARNING, "no arcopsd runs", evidence, remedy)


def _evidence(facts: Facts) -> tuple[str, ...]:
    state, daemon = facts.state, facts.daemon
    lines: list[str] = []
    if state is None:
        lines.append(facts.trouble)
    elif state.installed:
        pid = "" if state.main_pid is None else f", pid {state.main_pid}"
        lines.append(f"systemctl: {state.active} ({state.sub}{pid}), restarts {state.restarts}, result {state.result}")
    lines.append(daemon if isinstance(daemon, str) else facts.sameness.words)
    return tuple(lines)


SERVICE = Check(
    "service",
    "Does the supervisor run as the service, answer, and is it this arcops?",
    lambda sight: judge(probe(sight)),
)
