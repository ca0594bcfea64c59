"""Is a backend open to other machines, and is its key safe?"""

import ipaddress
import os
import stat
from dataclasses import dataclass

from arcops.core.launch import Launch
from arcops.doctor.finding import Outcome, Verdict, ok, together
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight


@dataclass(frozen=True, slots=True)
class Facts:
    profile: str
    host: str
    port: int
    key_file: str | None
    mode: int | None
    """Of the key's file; None where there is none, or it cannot be read."""
    owner: int | None
    uid: int


def probe(launch: Launch, uid: int) -> Facts:
    status = None
    if launch.api_key_file is not None:
        try:
            status = os.stat(launch.api_key_file)
        except OSError:
            status = None
    return Facts(
        launch.profile,
        launch.host,
        launch.port,
        launch.api_key_file,
        None if status is None else stat.S_IMODE(status.st_mode),
        None if status is None else status.st_uid,
        uid,
    )


def judge(facts: Facts) -> Outcome:
    where = f"{facts.profile} binds {facts.host} port {facts.port}"
    key = facts.key_file
    mode = "" if facts.mode is None else f", mode {facts.mode:04o}, owner {facts.owner}"
    evidence = (where, f"key: {key or 'none'}{mode}")
    open_to_all = not is_loopback(facts.host)
    if open_to_all and key is None:
        summary = f"{where}, with no key: whoever reaches this machine may use it"
        return Outcome(
            Verdict.PROBLEM, summary, evidence, "server.api_key_file in the profile, or server.host: 127.0.0.1"
        )
    if key is not None and facts.mode is None:
        return Outcome(
            Verdict.PROBLEM, f"the key {key} of {facts.profile} cannot be looked at", evidence, f"ls -l {key}"
        )
    if facts.mode is not None and facts.mode & 0o077:
        summary = f"the key {key} may be read by others (mode {facts.mode:04o})"
        return Outcome(Verdict.PROBLEM, summary, evidence, f"chmod 600 {key}")
    if open_to_all:
        summary = f"{where}: other machines reach it, with the key (vLLM guards /v1 alone with it)"
        return Outcome(Verdict.WARNING, summary, evidence, "remote access is a gateway's job: docs/operating.md")
    return ok(f"{where}: this machine alone" + (", with a key" if key else ""), *(evidence[1:] if key else ()))


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def exposure(sight: Sight) -> Outcome:
    launches = sight.usable().launches
    found = [judge(probe(launch, sight.uid)) for launch in launches]
    return together(found) if found else ok("no profile can run here, so nothing would be open")


EXPOSURE = Check("exposure", "Is a backend open to other machines, and is its key safe?", exposure)
