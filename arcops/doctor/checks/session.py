"""The way to the user's manager, and the versions of what is here."""

import os
import platform
import stat
import sys
from dataclasses import dataclass

from arcops import __version__
from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Outcome, Verdict, ok
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight, read_text
from arcops.machine import managers


@dataclass(frozen=True, slots=True)
class Facts:
    given: str
    """XDG_RUNTIME_DIR of the shell; empty where it is not set."""
    used: str
    """The one that is used."""
    owner: int | None
    """Of that directory; None where there is none."""
    mode: int
    uid: int
    version: str
    """systemd's; empty where the manager does not answer."""
    trouble: str
    hint: str


def check(sight: Sight) -> Outcome:
    """A service of the system's has nothing to do with the user's manager."""
    if sight.unit.system:
        where = f"its clients need XDG_RUNTIME_DIR={sight.env.get('XDG_RUNTIME_DIR', '')}"
        return ok(f"{sight.unit.name} is the system's: the user's systemd is not needed", where)
    return judge(probe(sight))


def probe(sight: Sight) -> Facts:
    used = sight.env.get("XDG_RUNTIME_DIR", "")
    try:
        found = os.stat(used) if used else None
    except OSError:
        found = None
    version, trouble, hint = "", "", ""
    try:
        answer = sight.ask(("systemctl", "--user", "show", "--property=Version"))
        if answer.code == 0:
            version = answer.properties.get("Version", "unknown")
        else:
            error = managers.error_of(answer, sight.env)
            trouble, hint = error.message, error.hint
    except ArcopsError as error:
        trouble, hint = error.message, error.hint
    return Facts(
        given=os.environ.get("XDG_RUNTIME_DIR", ""),
        used=used,
        owner=None if found is None else found.st_uid,
        mode=0 if found is None else stat.S_IMODE(found.st_mode),
        uid=sight.uid,
        version=version,
        trouble=trouble,
        hint=hint,
    )


def judge(facts: Facts) -> Outcome:
    set_as = facts.given or "not set"
    evidence = [f"XDG_RUNTIME_DIR: {set_as}" + (f", {facts.used} is used" if facts.used != facts.given else "")]
    if facts.owner is not None:
        evidence.append(f"{facts.used}: owner {facts.owner}, mode {facts.mode:04o}")
    if facts.owner is not None and facts.owner != facts.uid:
        summary = f"XDG_RUNTIME_DIR is another user's (uid {facts.owner}, and you are {facts.uid})"
        return Outcome(
            Verdict.PROBLEM, summary, tuple(evidence), facts.hint or f"export XDG_RUNTIME_DIR=/run/user/{facts.uid}"
        )
    if not facts.version:
        summary = "the user's systemd cannot be reached: no service, and backends get no scope of their own"
        return Outcome(Verdict.WARNING, summary, (*evidence, facts.trouble), facts.hint)
    return ok("the user's systemd answers", *evidence, f"systemd {facts.version}")


def versions(sight: Sight) -> Outcome:
    """Not judged: to be told to whoever helps."""
    kernel = read_text(sight.roots.proc, "sys/kernel/osrelease") or "unknown"
    return ok(
        f"arcops {__version__} on Python {platform.python_version()}",
        f"installed in {sys.prefix}",
        f"Python: {sys.executable}",
        f"Linux {kernel}",
    )


SESSION = Check("session", "Can the user's systemd be reached from here?", check)
VERSIONS = Check("versions", "Which arcops, on what?", versions)
