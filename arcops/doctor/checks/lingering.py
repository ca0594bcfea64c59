"""Do this user's services run without a login?"""

from dataclasses import dataclass

from arcops.core.errors import ArcopsError
from arcops.core.quantity import Known, Reading
from arcops.doctor.finding import Fix, FixKind, Outcome, Verdict, ok, unknown
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.machine.linger import lingering

_REMEDY = "arcops service linger on"


@dataclass(frozen=True, slots=True)
class Facts:
    user: str
    file: Reading[bool]
    """Whether logind's own file is there."""
    place: str
    loginctl: bool | None
    """What loginctl says; None where it cannot be asked."""
    said: str
    """In its own words, or why not."""
    enabled: bool
    """A unit of arcops is enabled, so somebody counts on it."""


def check(sight: Sight) -> Outcome:
    """A service of the system's needs none."""
    if sight.unit.system:
        return ok(f"{sight.unit.name} is the system's: it needs no lingering")
    return judge(probe(sight))


def probe(sight: Sight) -> Facts:
    says, said = _loginctl(sight)
    service = sight.service()
    enabled = not isinstance(service, ArcopsError) and service.enabled.startswith("enabled")
    file = lingering(sight.user, sight.roots.linger)
    return Facts(sight.user, file, f"{sight.roots.linger}/{sight.user}", says, said, enabled)


def judge(facts: Facts) -> Outcome:
    if not isinstance(facts.file, Known):
        return unknown("whether lingering is on cannot be read", facts.file.reason, facts.said)
    on = facts.file.value
    evidence = (f"{facts.place} is {'there' if on else 'not there'}", facts.said)
    if facts.loginctl is not None and facts.loginctl is not on:
        summary = f"logind's file says that lingering is {_word(on)}, and loginctl that it is {_word(facts.loginctl)}"
        return Outcome(Verdict.WARNING, summary, evidence, f"{_REMEDY} (the file is what counts at the next boot)")
    if on:
        return ok(f"lingering is on for {facts.user}", *evidence)
    verdict = Verdict.PROBLEM if facts.enabled else Verdict.WARNING
    summary = f"lingering is off for {facts.user}: the service ends with the last logout, and no boot starts it"
    return Outcome(verdict, summary, evidence, _REMEDY, (Fix(kind=FixKind.ENABLE_LINGERING),))


def _loginctl(sight: Sight) -> tuple[bool | None, str]:
    try:
        answer = sight.ask(("loginctl", "show-user", sight.user, "--property=Linger"))
    except ArcopsError as error:
        return None, error.message
    if answer.code == 0 and "Linger" in answer.properties:
        return answer.properties["Linger"] == "yes", f"loginctl: Linger={answer.properties['Linger']}"
    if "not logged in" in answer.err:
        # It knows only who is logged in or lingers: not to know somebody is a no.
        return False, f"loginctl: {answer.complaint}"
    return None, f"loginctl: {answer.complaint}"


def _word(on: bool) -> str:
    return "on" if on else "off"


LINGERING = Check("lingering", "Do this user's services run without a login?", check)
