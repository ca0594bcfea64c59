"""What the kernel said: its log's lines taken apart, and the words in them that tell why a backend ended.

Sources: Documentation/ABI/testing/dev-kmsg; mm/oom_kill.c; the print calls of the drivers xe, i915 and amdgpu and of
DRM's core (drm_dev_wedged_event); NVIDIA's catalogue of Xid errors. The lines are untrusted: command names in them are
chosen by users, so lines are cut and made printable, and the patterns take linear time.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from arcops.core.cards.incidents import Kind

MAX_LINE = 1000
"""Characters of a line that are looked at; the kernel's own limit is about as much."""


class Word(Enum):
    """What a line of the kernel's log means for a backend: what befell a card, or the one thing that befalls others."""

    OOM_KILL = "the kernel killed a process for want of memory"
    RESET = Kind.RESET.words
    JOB_TIMEOUT = Kind.JOB_TIMEOUT.words
    PAGE_FAULT = Kind.PAGE_FAULT.words
    MEMORY_ERROR = Kind.MEMORY_ERROR.words
    COREDUMP = Kind.COREDUMP.words
    RECOVERY = Kind.RECOVERY.words
    GONE = Kind.GONE.words
    WEDGED = Kind.WEDGED.words


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One line of the kernel's log."""

    at: float
    """Seconds on the kernel's log clock: since boot, and within a second or so of the monotonic clock."""
    text: str


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """A line that means something for a backend."""

    word: Word
    text: str
    at: float = 0.0
    """As of the line."""
    driver: str = ""
    """`xe`, `i915`, `amdgpu` or `nvidia`; empty where no driver said it."""
    card: str | None = None
    """PCI address, as sysfs writes it; None where the line names none."""
    pid: int | None = None
    """In the first pid namespace: of the killed process, or of whose job it was."""
    command: str | None = None
    """Its name, which its user chose."""
    engine: str | None = None
    """Class or name of the engine; None where the line names none."""
    closes: bool = False
    """It is the end of a reset that another line began with."""
    cgroup: str | None = None
    """Path of the killed process's cgroup; None where the line names none."""


_RECORD = re.compile(r"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;\n]{0,100};([^\n]*)")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")
_JOURNAL = re.compile(r"\[ {0,12}(\d{1,12}\.\d{1,9})\] \S{1,255} kernel: (.*)")
_BELOW_FACILITY = 3
"""Bits of a record's first number below its facility. The kernel's own is 0; who writes to /dev/kmsg gets another."""

_ADDRESS = r"(?P<card>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_DRIVER = re.compile(rf"(?P<driver>xe|i915|amdgpu)(?: {_ADDRESS})?\b")
_OF_A_PROCESS = re.compile(r".{1,15}\[\d{1,10}\]: ")
"""`COMMAND[PID]: segfault at ... in FILE`: both names are a user's choice, and may read like a driver's words."""
_NVIDIA_ADDRESS = re.compile(
    r"NVRM: (?:Xid \(PCI:|GPU (?:at PCI:)?)(?P<card>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})", re.I
)
_XID = re.compile(
    r"NVRM: Xid \(PCI:[0-9a-f:.]{1,20}\): (?P<xid>\d{1,4})\b"
    r"(?:, pid='?(?P<pid>\d{1,10})'?(?:, name=(?P<command>[^,]{1,40}))?)?",
    re.I,
)
_KILLED = re.compile(r"(?:Memory cgroup )?(?:[Oo]ut of memory|OOM)[^:]{0,60}: Kill(?:ed)? process (?P<pid>\d{1,10})\b")
_OOM_VICTIM = re.compile(
    r"oom-kill:constraint=\w{1,40},.{0,400}task_memcg=(?P<cgroup>[^,]{1,300}),task=.{1,40},pid=(?P<pid>\d{1,10}),"
)
_JOB_OF = re.compile(r" in (?:process )?(?P<command>.{1,40}?) \[(?P<pid>\d{1,10})\]")
_ENGINE = re.compile(
    r"(?:engine_class|\bclass)=(?P<by_class>[a-z]{1,8})\b|EngineClass: \d{1,3} (?P<by_number>[a-z]{1,8})\b"
    r"|\bring (?P<ring>[\w.]{1,40}) timeout|\bon (?P<name>[a-z]{3,4}\d{1,2})\b"
    r"|Resetting (?P<reset>[a-z]{3,4}\d{1,2}) for"
)
_CLOSES = re.compile(r"reset done|GPU reset\(\d{1,9}\) succeeded|wedged, but recovered through reset")

_XID_RECOVERY = 154
_NEEDS_RESET = re.compile(r" to 0x\d{1,2} \([^)]{0,40}Re(?:set|boot)\b")
"""Also "(None)" is a recovery action, once the others are done with; and "(Drain P2P)" leaves the card at work."""
_NEEDS_NOTHING = re.compile(r" to 0x0 \(")
_XIDS = {
    Word.GONE: frozenset({79, 119, 120}),
    Word.WEDGED: frozenset({95, 140, _XID_RECOVERY}),
    Word.MEMORY_ERROR: frozenset({48, 63, 64, 94}),
    Word.PAGE_FAULT: frozenset({13, 31}),
    Word.JOB_TIMEOUT: frozenset({8, 109}),
}
"""79 fallen off the bus; 119, 120 the GSP does not answer; 95, 140 uncontained memory errors and 154 "recovery action":
the GPU needs a reset; 48 double-bit error; 63, 64 page retirement; 94 contained memory error; 13 exception and 31 page
fault of a job; 8 and 109 time-outs."""

_WORDS: tuple[tuple[Word, re.Pattern[str]], ...] = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        # DRM says "device wedged, but recovered through reset" after a reset that succeeded: no more than that.
        (Word.RESET, r"device wedged, but recovered through reset"),
        (Word.WEDGED, r"as wedged|device wedged, needs recovery|declaring it wedged|Survivability [Mm]ode enabled"),
        (Word.WEDGED, r"GPU (?:reset|recovery) end with ret = -|GPU Recovery Failed"),
        (Word.WEDGED, r"GT\d{1,2}: reset failed|Failed to reset (?:chip|GPU)"),
        (Word.GONE, r"[Dd]evice lost from bus|has fallen off the bus|unreachable over PCI|device is inaccessible"),
        (Word.MEMORY_ERROR, r"[Uu]ncorrect(?:ed|able) .{0,80}error|VRAM is lost"),
        (Word.PAGE_FAULT, r"Fault response: Unsuccessful|memory CAT error"),
        (Word.PAGE_FAULT, r"\[(?:gfx|mm)hub\d{0,2}\] (?:no-retry )?page fault|VM_FAULT|VM fault"),
        (Word.JOB_TIMEOUT, r"Timedout job|ring \S{1,40} timeout|GPU HANG|Check job timeout|Fence expiration time out"),
        (Word.RESET, r"Engine reset:|reset (?:started|done)|GPU reset begin|GPU reset\(\d{1,9}\) succeeded"),
        (Word.RESET, r"Resetting (?:chip|\w{1,20}) for"),
        (Word.COREDUMP, r"device coredump has been created"),
    )
)
"""Order matters: the special before the general, the grave before what led to it."""


def parse_record(record: str) -> KernelLine | None:
    """One record of /dev/kmsg, `prio,seq,usec,flags;text`; None for what the kernel did not say itself.

    The lines after the first, ` KEY=value`, name the device once more, and are left out.
    """
    match = _RECORD.match(record)
    if match is None or int(match[1]) >> _BELOW_FACILITY:
        return None
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), match[4][: 4 * MAX_LINE])
    return KernelLine(int(match[3]) / 1e6, _printable(text))


def parse_journal(line: str) -> KernelLine | None:
    """One line of `journalctl --dmesg --output=short-monotonic`; None for any other."""
    match = _JOURNAL.match(line[: 4 * MAX_LINE])
    return None if match is None else KernelLine(float(match[1]), _printable(match[2]))


def events(lines: Iterable[KernelLine]) -> tuple[KernelEvent, ...]:
    """What the lines mean, in their order; those that mean nothing for a backend are left out."""
    found = ((line.at, event_of(line.text[:MAX_LINE])) for line in lines)
    return tuple(replace(event, at=at) for at, event in found if event is not None)


def event_of(text: str) -> KernelEvent | None:
    """What one line means."""
    if _OF_A_PROCESS.match(text) is not None:
        return None
    killed = _KILLED.match(text)
    if killed is not None:
        return KernelEvent(Word.OOM_KILL, text, pid=int(killed["pid"]))
    victim = _OOM_VICTIM.match(text)
    if victim is not None:
        return KernelEvent(Word.OOM_KILL, text, pid=int(victim["pid"]), cgroup=victim["cgroup"])
    return _nvidia(text) if text.startswith("NVRM: ") else _drm(text)


def of_launch(found: Sequence[KernelEvent], pids: frozenset[int], cgroup: str) -> tuple[KernelEvent, ...]:
    """The kills for want of memory that struck a launch: one of its processes, or one in its cgroup (if it has one)."""
    return tuple(
        event
        for event in found
        if event.word is Word.OOM_KILL
        and (event.pid in pids or bool(cgroup and event.cgroup and cgroup in event.cgroup.split("/")))
    )


def of_cards(found: Sequence[KernelEvent], cards: Sequence[str]) -> tuple[KernelEvent, ...]:
    """What befell these cards. A line that names no card is left out: it may be about another one."""
    return tuple(event for event in found if event.word is not Word.OOM_KILL and event.card in cards)


def _drm(text: str) -> KernelEvent | None:
    driver = _DRIVER.match(text)
    if driver is None:
        return None
    word = next((word for word, pattern in _WORDS if pattern.search(text)), None)
    if word is None:
        return None
    whose, engine = _JOB_OF.search(text), _ENGINE.search(text)
    return KernelEvent(
        word,
        text,
        driver=driver["driver"],
        card=driver["card"],
        pid=None if whose is None else int(whose["pid"]),
        command=None if whose is None else whose["command"],
        engine=None if engine is None else engine[engine.lastgroup or 0],
        closes=_CLOSES.search(text) is not None,
    )


def _nvidia(text: str) -> KernelEvent | None:
    address = _NVIDIA_ADDRESS.match(text)
    card = None if address is None else _pci(address["card"])
    xid = _XID.match(text)
    if xid is None:
        gone = "has fallen off the bus" in text
        return KernelEvent(Word.GONE, text, driver="nvidia", card=card) if gone else None
    word = next((word for word, numbers in _XIDS.items() if int(xid["xid"]) in numbers), None)
    if int(xid["xid"]) == _XID_RECOVERY and not _NEEDS_RESET.search(text):
        word = Word.RECOVERY if _NEEDS_NOTHING.search(text) else None
    pid = int(xid["pid"]) if xid["pid"] else None
    command = None if pid is None else xid["command"]
    return None if word is None else KernelEvent(word, text, driver="nvidia", card=card, pid=pid, command=command)


def _pci(address: str) -> str:
    """NVIDIA writes no function, and sometimes a domain of eight digits."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}.0"


def _printable(text: str) -> str:
    text = text[:MAX_LINE]
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
