"""Are there other model servers on this machine?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from arcops.core.errors import ArcopsError
from arcops.doctor.checks.holders import ours
from arcops.doctor.finding import Outcome, Verdict, ok, unknown
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.machine import port

_SERVERS = re.compile(
    r"(?i)(ollama|vllm|llama|tabby|text-generation|tgi|localai|lm-?studio|koboldcpp|sglang|triton-?server|openvino|ramalama)"
)
USUAL_PORTS = {
    1234: "LM Studio",
    5000: "text-generation-webui",
    8000: "vLLM",
    8080: "llama.cpp, llama-swap, TabbyML",
    11434: "Ollama",
    30000: "SGLang",
}
"""Where such servers listen unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Facts:
    user_units: tuple[str, ...] | str
    """Running services that look like a model server; why not, where they cannot be listed."""
    system_units: tuple[str, ...] | str
    listeners: tuple[tuple[int, str], ...]
    """Usual ports on which somebody else listens, and who."""


def probe(sight: Sight) -> Facts:
    own: frozenset[int] | None = None
    found: list[tuple[int, str]] = []
    for number in USUAL_PORTS:
        listeners = [one for one in port.listeners(number) if one.listens]
        if listeners and own is None:
            own = ours(sight)
        for one in listeners:
            if one.pid is None or one.pid not in (own or ()):
                who = "a process that cannot be looked into" if one.pid is None else f"{one.command} (pid {one.pid})"
                found.append((number, f"{who} of user {one.user or 'unknown'} on {one.address}"))
    return Facts(_units(sight, "--user"), _units(sight, "--system"), tuple(found))


def judge(facts: Facts) -> Outcome:
    named = (("user", facts.user_units, "systemctl --user stop"), ("system", facts.system_units, "sudo systemctl stop"))
    evidence: list[str] = []
    remedies: list[str] = []
    servers: list[str] = []
    for kind, units, stop in named:
        if isinstance(units, str):
            evidence.append(f"{kind} services cannot be listed: {units}")
        elif units:
            servers += units
            evidence.append(f"{kind} services: {', '.join(units)}")
            remedies.append(f"{stop} {' '.join(units)}")
    evidence += [f"port {number} (usual for {USUAL_PORTS[number]}): {who}" for number, who in facts.listeners]
    if servers:
        summary = f"other model servers run: {', '.join(servers)}; they may take card and port at any time"
        return Outcome(Verdict.WARNING, summary, tuple(evidence), "; ".join(remedies))
    if facts.listeners:
        ports = ", ".join(str(number) for number, _ in facts.listeners)
        summary = f"somebody listens where model servers usually do (port {ports})"
        return Outcome(Verdict.WARNING, summary, tuple(evidence), "if it is one, end it in its own way")
    if isinstance(facts.user_units, str) and isinstance(facts.system_units, str):
        return unknown("nobody listens on the usual ports, but services cannot be listed", *evidence)
    return ok("no other model server was seen", *evidence)


def matching(names: Sequence[str]) -> tuple[str, ...]:
    """Those that are called like a model server, arcops' own units excepted."""
    return tuple(name for name in names if _SERVERS.search(name) and not name.startswith("arcops"))


def _units(sight: Sight, which: str) -> tuple[str, ...] | str:
    argv = ("systemctl", which, "list-units", "--type=service", "--state=active,activating", "--plain", "--no-legend")
    try:
        answer = sight.ask(argv)
    except ArcopsError as error:
        return error.message
    if answer.code != 0:
        return answer.complaint
    return matching([line.split()[0] for line in answer.out.splitlines() if line.split()])


OTHERS = Check("other-servers", "Are there other model servers on this machine?", lambda sight: judge(probe(sight)))
