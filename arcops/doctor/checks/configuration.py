"""Can the configuration be read, and what is ordered be started?"""

import os
from dataclasses import dataclass

from arcops.core.errors import ArcopsError
from arcops.doctor.finding import Outcome, Verdict, ok
from arcops.doctor.run import Check
from arcops.doctor.sight import Profiles, Sight


@dataclass(frozen=True, slots=True)
class Facts:
    profiles: Profiles | ArcopsError
    ordered: str | None
    """The profile that the daemon is to run; None where nothing is, or nobody says."""
    directory: str = ""
    site_there: bool = True
    closed: bool = False
    """The directory of the configuration is there, and may not be looked into: what it has is not seen at all."""


def probe(sight: Sight) -> Facts:
    status = sight.status()
    ordered = None if isinstance(status, str) or status.order.goal != "run" else status.order.profile
    profiles, directory = sight.profiles(), sight.paths.config_dir
    site_there = isinstance(profiles, ArcopsError) or os.path.exists(profiles.site)
    closed = os.path.exists(directory) and not os.access(directory, os.R_OK | os.X_OK)
    return Facts(profiles, ordered, str(directory), site_there, closed)


def judge(facts: Facts) -> Outcome:
    found = facts.profiles
    if facts.closed:
        return Outcome(Verdict.PROBLEM, f"{facts.directory} may not be read", (), f"ls -ld {facts.directory}")
    if isinstance(found, ArcopsError):
        return Outcome(Verdict.PROBLEM, "the site's settings cannot be used", (found.message,), found.hint)
    names = [launch.profile for launch in found.launches]
    site = found.site if facts.site_there else f"{found.site} is not there"
    evidence = [f"site settings: {site}", f"can run here: {', '.join(names) or 'none'}"]
    evidence += [f"{name}: {problem}" for name, problem in found.invalid]
    if facts.ordered is not None and facts.ordered not in names:
        summary = f"{facts.ordered} is ordered to run, and its next start would fail"
        return Outcome(Verdict.PROBLEM, summary, tuple(evidence), f"arcops profile check {facts.ordered}")
    if not names:
        return Outcome(Verdict.WARNING, "no profile can run on this machine", tuple(evidence), "arcops init")
    if found.invalid:
        first = found.invalid[0][0]
        summary = f"{len(found.invalid)} of your own profiles cannot run here"
        return Outcome(Verdict.WARNING, summary, tuple(evidence), f"arcops profile check {first}")
    return ok(f"{len(names)} profiles can run here", *evidence)


CONFIGURATION = Check(
    "configuration", "Can the configuration be read, and what is ordered be started?", lambda sight: judge(probe(sight))
)
