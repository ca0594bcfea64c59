"""From the evidence of an ended or failing launch to one diagnosis."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from signal import SIGINT, SIGKILL, SIGTERM, Signals

from arcops.core.cards.incidents import FATAL, OF_THE_CARD, Incident, Kind, Source, fatal
from arcops.core.diagnosis import kernel, notices, root
from arcops.core.diagnosis.causes import ANYWHERE, RULES, Rule
from arcops.core.diagnosis.kernel import KernelEvent, KernelLine
from arcops.core.phase import Phase
from arcops.core.world import Cause

_MAX_WORDS = 300
"""Characters of a summary, a hint or a quoted line."""
_STARTING = (Phase.STARTING, Phase.CHECKING)
_DRAFT = re.compile(r"[Ss]peculative|spec_decode|drafter|draft_model|propose|eagle|dflash|medusa|(?:\b|_)mtp\b|MTP")
_OOM_HINT = (
    "give the machine more memory or swap, or let the backend take less: fewer other programs, a smaller model or"
    " cache; memory that drivers pin is in no process's own figures"
)
_RESET_HINT = "if it happens again with the same requests, lower scheduling.max_num_batched_tokens; else reboot"
_DRAFT_CAUSES = (Cause.MODEL_NOT_FOUND, Cause.UNSUPPORTED)
"""With the draft as their object these mean that the draft does not fit."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about the end of a launch, or about its failing to get ready."""

    exit_code: int | None
    """Of the main process, negative for a signal; None while it lives, or if nobody knows."""
    phase: Phase
    """Where the backend was when it happened."""
    log: Sequence[str]
    """The last some thousand lines of its log."""
    profile_speculates: bool = False
    kernel: Sequence[KernelLine] | None = None
    """What the kernel has said since the launch; None where nobody has read it."""
    kernel_unread: str = ""
    """Why that could not be read, in words; empty where it was, or nobody has tried."""
    kernel_recent: float = 0.0
    """From then on (seconds, the log's clock) its lines are about the end of the backend, before that its past."""
    pids: frozenset[int] = frozenset()
    """Every process that the launch was seen to have, as the kernel's log names them; empty where it names others."""
    cgroup: str = ""
    """Name of the launch's own cgroup or scope; empty where it has none."""
    cards: tuple[str, ...] = ()
    """PCI addresses of the launch's cards."""
    incidents: tuple[Incident, ...] = ()
    """What befell these since the launch, as it was noticed when it happened: also by others than the kernel's log."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why, in one line each: what happened, and what to do."""

    cause: Cause
    summary: str
    hint: str
    deterministic: bool
    """Trying the same launch again would fail the same way."""
    points_at_draft: bool = False
    """The draft, or the speculative settings, are to blame: the same profile without them may well start."""
    evidence: str = ""
    """The line of the log that says so; empty if the log said nothing."""
    fits_context: int | None = None
    """The largest context in tokens that would fit, where vLLM names it."""
    card_fault: bool = False
    """The device was lost, and its driver or the kernel tells of a reset or worse: the model is not to blame."""


def diagnose(evidence: Evidence) -> Diagnosis:
    """The most telling cause, in this order: what the kernel did to it, the log, the exit.

    What the supervisor sees from outside (a stranger on the port, another identity, a stalled start) it judges itself,
    in core/decide.
    """
    lines = root.read(evidence.log)
    found = root.find(lines)
    if found is not None and not found.in_engine and evidence.phase not in _STARTING:
        # While serving, the API server logs the faults of single requests: none of them ended it.
        found = None
    said = kernel.events(evidence.kernel or ())
    befell = _befell(evidence, said)
    judged = (
        _killed_for_memory(evidence, said)
        or _given_up(fatal(befell, float("-inf")))
        or _device_lost(_known(evidence, found, lines), befell)
        or _reset_in_silence(found, befell)
        or _signalled(evidence)
        or _unexplained(evidence, found, lines)
    )
    quoted = judged.evidence or ("" if found is None else found.text)
    return replace(judged, summary=_line(judged.summary), hint=_line(judged.hint), evidence=_line(quoted))


def _killed_for_memory(evidence: Evidence, said: Sequence[KernelEvent]) -> Diagnosis | None:
    """The kernel's own word, whatever the survivors made of it in the log."""
    recent = [event for event in said if event.at >= evidence.kernel_recent]
    struck = kernel.of_launch(recent, evidence.pids, evidence.cgroup)
    if not struck:
        return None
    # The first one is where it began; of its two lines the one that also says how large the process was.
    told = next((event for event in recent if event.cgroup is None and event.pid == struck[0].pid), struck[0])
    summary = f"the kernel killed process {told.pid} of the backend for want of memory"
    return Diagnosis(Cause.OOM_KILLER, summary, _OOM_HINT, deterministic=False, evidence=told.text)


def _befell(evidence: Evidence, said: Sequence[KernelEvent]) -> tuple[Incident, ...]:
    """What befell the launch's cards lately, or for good, oldest first: each line of the log once."""
    lines = (notices.of_line(event) for event in kernel.of_cards(said, evidence.cards))
    read = evidence.kernel is not None
    others = (one for one in evidence.incidents if not read or one.source is not Source.KERNEL_LOG)
    told = [one for one in (*lines, *others) if one is not None and one.card in evidence.cards]
    lasting = FATAL | {Kind.RECOVERY}
    return tuple(
        sorted((one for one in told if one.at >= evidence.kernel_recent or one.kind in lasting), key=lambda one: one.at)
    )


def _given_up(wedged: Incident | None) -> Diagnosis | None:
    """Nothing but a rebind or a reboot helps: no process restart recovers the card."""
    if wedged is None:
        return None
    summary = f"card {wedged.card} is wedged: {wedged.kind.words}"
    return Diagnosis(Cause.GPU_WEDGED, summary, remedy(wedged), deterministic=True, evidence=wedged.text)


def remedy(wedged: Incident) -> str:
    """How a card that its driver has given up is brought back."""
    card, driver = wedged.card, wedged.driver
    if driver == "nvidia":
        return "`nvidia-smi --gpu-reset` as root, with nothing else on the card, or reboot; then `arcops restart`"
    unbind, bind = (f"`echo {card} > /sys/bus/pci/drivers/{driver}/{verb}`" for verb in ("unbind", "bind"))
    if not driver:  # a uevent names none
        unbind = f"`echo {card} > /sys/bus/pci/devices/{card}/driver/unbind`"
        bind = f"`echo {card} > /sys/bus/pci/drivers_probe`"
    return f"as root, with no screen on the card: {unbind}, then {bind}; or reboot; then `arcops restart`"


def _speaking(befell: Sequence[Incident]) -> Incident | None:
    """The one that explains a lost device: where it began. That a card was brought back explains nothing."""
    return next((one for one in befell if one.kind is not Kind.RECOVERY), None)


def _device_lost(known: Diagnosis | None, befell: Sequence[Incident]) -> Diagnosis | None:
    """The log says that the device was lost, and the kernel says why."""
    first = _speaking(befell)
    if known is None or known.cause is not Cause.DEVICE_LOST or first is None:
        return known
    summary = f"{known.summary}: {first.kind.words}"
    return replace(known, summary=summary, evidence=first.text, hint=_RESET_HINT, card_fault=_is_the_cards(befell))


def _reset_in_silence(found: root.Root | None, befell: Sequence[Incident]) -> Diagnosis | None:
    """The backend died without a word of its own, and the kernel had to act on its card."""
    first = _speaking(befell)
    if found is not None or first is None:
        return None
    summary, ours = f"the driver lost the device: {first.kind.words}", _is_the_cards(befell)
    return Diagnosis(Cause.DEVICE_LOST, summary, _RESET_HINT, deterministic=False, evidence=first.text, card_fault=ours)


def _is_the_cards(befell: Sequence[Incident]) -> bool:
    return any(one.reset or one.kind in OF_THE_CARD for one in befell)


def _known(evidence: Evidence, found: root.Root | None, lines: Sequence[root.Line]) -> Diagnosis | None:
    """What the table says about the root cause, or about a native crash that left no exception."""
    if found is not None:
        for rule in RULES:
            match = rule.pattern.search(found.text)
            if match is not None:
                return _judged(evidence, rule, match, found)
    for line in reversed(lines):
        for rule in ANYWHERE:
            match = rule.pattern.search(line.text) if line.level in ("", "ERROR", "CRITICAL") else None
            if match is not None:
                return _judged(evidence, rule, match, root.Root(line.text, "", in_engine=False))
    return None


def _judged(evidence: Evidence, rule: Rule, match: re.Match[str], found: root.Root) -> Diagnosis:
    words = {key: value or "" for key, value in match.groupdict().items()}
    fits = words.get("fits", "")
    diagnosis = Diagnosis(
        cause=rule.cause,
        summary=rule.summary.format_map(words),
        hint=rule.hint.format_map(words),
        deterministic=rule.deterministic,
        points_at_draft=_points_at_draft(evidence, found),
        evidence=found.text,
        fits_context=int(fits) if fits else None,
    )
    if rule.cause is Cause.KV_CACHE_TOO_SMALL and "fits" in words and not fits:
        return replace(diagnosis, hint="lower scheduling.max_model_len, or give the cache more memory")
    if diagnosis.points_at_draft and rule.cause in _DRAFT_CAUSES:
        hint = "correct the draft in the profile, or run without one"
        return replace(diagnosis, cause=Cause.DRAFT_INCOMPATIBLE, summary=f"the draft: {diagnosis.summary}", hint=hint)
    return diagnosis


def _points_at_draft(evidence: Evidence, found: root.Root) -> bool:
    if not evidence.profile_speculates:
        return False
    return _DRAFT.search(found.text) is not None or _DRAFT.search(found.traceback) is not None


def _signalled(evidence: Evidence) -> Diagnosis | None:
    code = evidence.exit_code
    if code is None or code >= 0:
        return None
    if -code == SIGKILL:
        return _killed(evidence)
    try:
        name = Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    asked = -code in (SIGINT, SIGTERM)
    hint = "somebody else asked it to stop" if asked else "a crash in native code; `coredumpctl` may hold more"
    return Diagnosis(Cause.KILLED_BY_SIGNAL, f"ended by {name}", hint, deterministic=False)


def _killed(evidence: Evidence) -> Diagnosis:
    """SIGKILL: the kernel for want of memory, unless its log was read and does not say so."""
    if evidence.kernel is not None and evidence.pids:
        hint = "the kernel's log names none of its processes: another program did it, or somebody"
        return Diagnosis(Cause.KILLED_BY_SIGNAL, "killed by SIGKILL, which nobody here sent", hint, deterministic=False)
    hint = "`journalctl -k` says whether it was the kernel for want of memory; else somebody killed it"
    if evidence.kernel_unread:
        hint = f"{hint} ({evidence.kernel_unread})"
    return Diagnosis(Cause.OOM_KILLER, "killed by SIGKILL, which nobody here sent", hint, deterministic=False)


def _unexplained(evidence: Evidence, found: root.Root | None, lines: Sequence[root.Line]) -> Diagnosis:
    """The log's own words where it has some, else the bare fact."""
    hint = "look at the backend's log: `arcops logs`"
    draft = found is not None and _points_at_draft(evidence, found)
    if found is not None and evidence.phase in _STARTING and not root.is_engine_death(lines):
        return Diagnosis(Cause.UNKNOWN, f"vLLM failed: {found.text}", hint, deterministic=False, points_at_draft=draft)
    if found is not None:
        summary = f"the engine died: {found.text}"
        return Diagnosis(Cause.ENGINE_DIED, summary, hint, deterministic=False, points_at_draft=draft)
    if root.is_engine_death(lines) or evidence.exit_code == 0:
        summary = "the engine died without saying why" if root.is_engine_death(lines) else "vLLM ended by itself"
        hint = "`journalctl -k` may say more: a killed process, a reset of the card"
        return Diagnosis(Cause.ENGINE_DIED, summary, hint, deterministic=False)
    code = "with an unknown exit code" if evidence.exit_code is None else f"with exit code {evidence.exit_code}"
    return Diagnosis(Cause.UNKNOWN, f"vLLM ended {code} and gave no reason", hint, deterministic=False)


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_WORDS else words[: _MAX_WORDS - 1] + "…"
