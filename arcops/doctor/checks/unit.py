"""Is the unit installed, enabled, unchanged, and of this arcops?"""

from dataclasses import dataclass
from pathlib import Path

from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Fix, FixKind, Outcome, Verdict, ok
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.service import files, same, units
from arcops.service.files import UnitFile
from arcops.service.same import Sameness
from arcops.service.state import ServiceState
from arcops.service.units import Unit

_INSTALL = "arcops service install --enable --now --linger"


@dataclass(frozen=True, slots=True)
class Facts:
    unit: Unit
    file: UnitFile
    wanted: str | None
    """The text that this arcops would write; None where it cannot say."""
    state: ServiceState | None
    trouble: str
    """Why the manager cannot be asked, or what this arcops would write cannot be said."""
    program: Sameness
    rival: str = ""
    """Another unit that would start a supervisor of the same instance."""


def probe(sight: Sight) -> Facts:
    unit, service = sight.unit, sight.service()
    found = files.read(_path(sight, service), unit.name)
    wanted, trouble = None, ""
    try:
        wanted = units.wanted(unit.file, units.programs())
    except ArcopsError as error:
        trouble = error.message
    state = None if isinstance(service, ArcopsError) else service
    if isinstance(service, ArcopsError):
        trouble = service.message
    program = same.of_unit("" if state is None else state.program)
    rival = "" if sight.place is None else sight.place.rival
    return Facts(unit, found, wanted, state, trouble, program, rival)


def _path(sight: Sight, service: "ServiceState | ArcopsError") -> Path:
    """Where the unit's file is, or would be."""
    if not sight.unit.system:
        return files.directory(sight.env) / sight.unit.file
    there = "" if isinstance(service, ArcopsError) else service.fragment
    return Path(there or f"/etc/systemd/system/{sight.unit.file}")


def judge(facts: Facts) -> Outcome:
    state, file = facts.state, facts.file
    evidence = _evidence(facts)
    if file.masked or (state is not None and state.load == "masked"):
        return Outcome(
            Verdict.PROBLEM,
            f"{facts.unit.name} is masked",
            evidence,
            f"{_systemctl(facts.unit)} unmask {facts.unit.name}",
        )
    if file.text is None and (state is None or not state.installed):
        return Outcome(
            Verdict.WARNING, f"{facts.unit.name} is not installed: nothing starts arcopsd", evidence, _INSTALL
        )
    if state is None:
        return Outcome(Verdict.UNKNOWN, f"{facts.unit.name} is there, and nobody says what is made of it", evidence)
    if state.load not in ("loaded", "not-found"):
        remedy = f"{_systemctl(facts.unit)} status {facts.unit.name}"
        return Outcome(Verdict.PROBLEM, f"systemd cannot use {facts.unit.name}: {state.load}", evidence, remedy)
    if state.needs_reload or not state.installed:
        fixes = () if facts.unit.system else (Fix(kind=FixKind.DAEMON_RELOAD),)
        summary = f"{facts.unit.name} was changed, and systemd has not read it since"
        return Outcome(Verdict.WARNING, summary, evidence, f"{_systemctl(facts.unit)} daemon-reload", fixes)
    if facts.program.same is False:
        return Outcome(Verdict.PROBLEM, facts.program.words, evidence, _again(facts.unit))
    if facts.wanted is not None and file.text != facts.wanted:
        return Outcome(
            Verdict.WARNING, f"{facts.unit.name} is not as this arcops writes it", evidence, _again(facts.unit)
        )
    if not state.enabled.startswith("enabled"):
        summary = f"{facts.unit.name} is {state.enabled or 'not enabled'}: it does not start by itself"
        enable = facts.unit.command("enable") if facts.unit.system else "arcops service install --enable"
        return Outcome(Verdict.WARNING, summary, evidence, enable)
    if facts.rival:
        summary = f"{facts.unit.name} and {facts.rival} would each supervise this instance: whichever is second fails"
        return Outcome(Verdict.WARNING, summary, evidence, "arcops service uninstall   (of the user's own)")
    return ok(f"{facts.unit.name} is installed, enabled and of this arcops", *evidence)


def _systemctl(unit: Unit) -> str:
    return "sudo systemctl" if unit.system else "systemctl --user"


def _again(unit: Unit) -> str:
    if unit.system:
        return "arcops service install --system   (says what root has to do)"
    return "arcops service install   (shows what would change)"


def _evidence(facts: Facts) -> tuple[str, ...]:
    file, state = facts.file, facts.state
    where = f"{file.path} is {'not there' if file.text is None else 'there'}"
    lines = [where + (f", a link to {file.link}" if file.link is not None else "")]
    if file.text is not None and not file.ours:
        lines.append("`arcops service install` did not write it")
    if state is not None:
        lines.append(f"systemctl: {', '.join(filter(None, (state.load, state.enabled)))}")
        if state.fragment and state.fragment != str(file.path):
            lines.append(f"systemd reads {state.fragment}")
        if state.program:
            lines.append(f"ExecStart: {state.program}")
    lines += [f"drop-in: {path}" for path in file.drop_ins]
    return (*lines, *filter(None, [facts.trouble]))


UNIT = Check(
    "unit", "Is the unit installed, enabled, unchanged, and of this arcops?", lambda sight: judge(probe(sight))
)
