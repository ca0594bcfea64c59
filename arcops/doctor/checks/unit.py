"""Is the unit installed, enabled, unchanged, and of this arcops?"""

from dataclasses import dataclass

from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Fix, FixKind, Outcome, Verdict, ok
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.service import files, same, units
from arcops.service.files import UnitFile
from arcops.service.same import Sameness
from arcops.service.state import ServiceState

_INSTALL = "arcops service install --enable --now --linger"
_AGAIN = "arcops service install   (shows what would change)"


@dataclass(frozen=True, slots=True)
class Facts:
    unit: str
    file: UnitFile
    wanted: str | None
    """The text that this arcops would write; None where it cannot say."""
    state: ServiceState | None
    trouble: str
    """Why the manager cannot be asked, or what this arcops would write cannot be said."""
    program: Sameness


def probe(sight: Sight) -> Facts:
    unit = sight.unit
    found = files.read(files.directory(sight.env) / unit.file, unit.name)
    wanted, trouble = None, ""
    try:
        wanted = units.wanted(unit.file, units.programs())
    except ArcopsError as error:
        trouble = error.message
    service = sight.service()
    state = None if isinstance(service, ArcopsError) else service
    if isinstance(service, ArcopsError):
        trouble = service.message
    program = same.of_unit("" if state is None else state.program)
    return Facts(unit.name, found, wanted, state, trouble, program)


def judge(facts: Facts) -> Outcome:
    state, file = facts.state, facts.file
    evidence = _evidence(facts)
    if file.masked or (state is not None and state.load == "masked"):
        return Outcome(Verdict.PROBLEM, f"{facts.unit} is masked", evidence, f"systemctl --user unmask {facts.unit}")
    if file.text is None and (state is None or not state.installed):
        return Outcome(Verdict.WARNING, f"{facts.unit} is not installed: nothing starts arcopsd", evidence, _INSTALL)
    if state is None:
        return Outcome(Verdict.UNKNOWN, f"{facts.unit} is there, and nobody says what is made of it", evidence)
    if state.load not in ("loaded", "not-found"):
        remedy = f"systemctl --user status {facts.unit}"
        return Outcome(Verdict.PROBLEM, f"systemd cannot use {facts.unit}: {state.load}", evidence, remedy)
    if state.needs_reload or not state.installed:
        fix = Fix(kind=FixKind.DAEMON_RELOAD)
        summary = f"{facts.unit} was changed, and systemd has not read it since"
        return Outcome(Verdict.WARNING, summary, evidence, "systemctl --user daemon-reload", (fix,))
    if facts.program.same is False:
        return Outcome(Verdict.PROBLEM, facts.program.words, evidence, _AGAIN)
    if facts.wanted is not None and file.text != facts.wanted:
        return Outcome(Verdict.WARNING, f"{facts.unit} is not as this arcops writes it", evidence, _AGAIN)
    if not state.enabled.startswith("enabled"):
        summary = f"{facts.unit} is {state.enabled or 'not enabled'}: it does not start by itself"
        return Outcome(Verdict.WARNING, summary, evidence, "arcops service install --enable")
    return ok(f"{facts.unit} is installed, enabled and of this arcops", *evidence)


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
