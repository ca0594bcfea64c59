"""The fault matrix: what strikes, in which phase, and which state is right then, by which rule.

Every pair of fault and phase is here: as a `Cell`, or as an `Absent` with the reason why there is nothing to test.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

PHASES: Mapping[str, str] = {
    "starting": "the backend that is ordered is being started again, and loads",
    "checking": "HTTP answers, the first answer is still out",
    "idle": "serving, no request open",
    "busy": "serving, a stream open",
    "suspect": "a stream open, the engine hangs, the probe is still out",
    "draining": "a switch is ordered, an open stream is given its time",
    "stopping": "a switch is ordered, the old backend is deaf to SIGTERM",
    "clearing": "a switch is ordered, the old backend has ended, the next one's setup script runs",
    "backoff": "the backend died, the next attempt is minutes away",
    "failed": "a start failed for a reason that would not go away: latched",
    "stopped": "nothing is ordered to run",
    "blocked": "a stranger listens on the port of the standing order",
}
"""The columns, and how each is held while the fault strikes."""


class End(Enum):
    """Which state is right in the end."""

    SAME = "same"
    """The same launch serves (on), untouched."""
    ANEW = "anew"
    """A new launch of the same order serves."""
    OTHER = "other"
    """The profile of the newer order serves."""
    STOPPED = "stopped"
    BACKOFF = "backoff"
    FAILED = "failed"
    BLOCKED = "blocked"


MEANS: Mapping[End, str] = {
    End.SAME: "the same launch serves, untouched",
    End.ANEW: "a new launch of what was ordered serves",
    End.OTHER: "the profile that was ordered last serves",
    End.STOPPED: "nothing runs, and nothing is left",
    End.BACKOFF: "the next attempt waits, as before; `arcops restart` brings it up",
    End.FAILED: "the latch holds; `arcops restart` brings it up once the profile is mended",
    End.BLOCKED: "it waits and names who is in the way; it serves once they have gone",
}

RULES: Mapping[str, str] = {
    "restart": "nobody asked for this end: cleared, then started again by the restart policy",
    "order": "what is being replaced was to go anyway: the order goes on",
    "obey": "a new order is taken at once, and what ran makes room",
    "overtake": "refused as busy; with --replace the newer order counts",
    "adopt": "the next supervisor goes on with a healthy backend (law 8)",
    "take up": "the next supervisor goes on where the order stands (law 9)",
    "leave": "an orderly end takes the backend down, and the next supervisor starts what is ordered",
    "hang": "no progress and no answer to one question: a hang, taken down and started again",
    "doubt": "doubt is settled by one question, and a right answer ends it: never one strike",
    "ask": "metrics that say nothing of vLLM are no reason to doubt it, and one to ask: it answers, and serves on",
    "kill": "deaf to SIGTERM: SIGKILL when the grace is over, then the order goes on",
    "strays": "no process of the launch may live when the next one starts",
    "go on": "the backend needs none of it, and goes on",
    "ignored": "vLLM ignores one SIGTERM in its engine start: it goes on",
    "time": "drain time is bounded, whoever can tell how many requests are open",
    "orphan": "a record that cannot be read is not believed: its backend still holds the lock, and is named",
    "refuse": "an order is refused by the name of who is in the way, and changes nothing",
    "wait": "a standing order waits for whoever is in the way, and names them",
    "latch": "a latch is cleared by an order alone",
    "one daemon": "a second daemon of an instance is refused by the pid of the first",
    "rest": "nothing is ordered to run",
    "drained": "the last request has gone: the drain is over before its time",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A row: what goes wrong, and how a test brings it about."""

    id: str
    what: str
    how: str
    death: bool = False
    """The API server dies of it on the spot, so that the strike is the moment of its death."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A fault that strikes in a phase, and what is right then."""

    fault: str
    phase: str
    end: End
    rule: str
    hasty: bool = False
    """With short limits, because running into one of them is the point."""

    @property
    def id(self) -> str:
        return f"{self.fault}-in-{self.phase}"


@dataclass(frozen=True, slots=True)
class Absent:
    """A pair that makes no sense, and why."""

    fault: str
    phase: str
    reason: str


_NO_PROCESS = "no process of a backend lives in this phase"
_NO_HTTP = "it is done over HTTP, which does not answer in this phase"
_NO_STREAM = "no stream is open in this phase"
_AT_REST = ("clearing", "backoff", "failed", "stopped", "blocked")

Ends = Mapping[str, "tuple[End, str] | str"]
"""For each phase: the right end and its rule, or the reason why there is none."""


def _up(anew: str = "restart", end: End = End.ANEW, order: str = "order") -> Ends:
    """The seven phases in which processes of a backend live: `end` by the rule `anew`, or the order that goes on."""
    standing = dict.fromkeys(("starting", "checking", "idle", "busy", "suspect"), (end, anew))
    return {**standing, **dict.fromkeys(("draining", "stopping"), (End.OTHER, order))}


def _resting(reason: str = _NO_PROCESS) -> Ends:
    return dict.fromkeys(_AT_REST, reason)


def _same_at_rest(clearing: str, backoff: tuple[End, str], stopped: str, blocked: str = "wait") -> Ends:
    """The five phases at rest, where the fault changes nothing that was ordered."""
    return {
        "clearing": (End.OTHER, clearing),
        "backoff": backoff,
        "failed": (End.FAILED, "latch"),
        "stopped": (End.STOPPED, stopped),
        "blocked": (End.BLOCKED, blocked),
    }


_ORPHANED = "the record is torn under a live backend: columns starting, idle and busy"

ROWS: tuple[tuple[Fault, Ends], ...] = (
    (
        Fault(
            "api-sigkill", "API server: SIGKILL", "`kill -9` of the main process; EngineCore survives it", death=True
        ),
        {**_up("strays"), **_resting()},
    ),
    (
        Fault("api-sigterm", "API server: SIGTERM by a stranger", "`kill` of the main process"),
        {
            **_up(),
            "starting": (End.SAME, "ignored"),
            "stopping": "the old backend is deaf to it there, and the supervisor sends the same",
            **_resting(),
        },
    ),
    (
        Fault("api-exit-0", "API server: ends with code 0", "the fake ends itself"),
        {**_up(), **_resting()},
    ),
    (
        Fault("api-exit-3", "API server: ends with code 3", "the fake ends itself"),
        {**_up(), **_resting()},
    ),
    (
        Fault("api-sigsegv", "API server: SIGSEGV", "`kill -SEGV` of the main process", death=True),
        {**_up("strays"), **_resting()},
    ),
    (
        Fault(
            "engine-sigkill",
            "EngineCore: SIGKILL",
            "`kill -9` of EngineCore; the API server follows by itself, with code 0",
        ),
        {**_up(), **_resting()},
    ),
    (
        Fault("engine-sigstop", "EngineCore: SIGSTOP", "`kill -STOP` of EngineCore: /health goes on with 200"),
        {**_up("hang", order="time"), "stopping": (End.OTHER, "kill"), **_resting()},
    ),
    (
        Fault("all-sigstop", "Whole launch: SIGSTOP", "`kill -STOP` of every process of the launch, keeper and all"),
        {**_up("hang", order="kill"), **_resting()},
    ),
    (
        Fault(
            "term-deaf", "API server and EngineCore deaf to SIGTERM", "the fake ignores it; then `restart` is ordered"
        ),
        {
            **_up("kill", order="kill"),
            "starting": "vLLM is deaf to it there by itself: row SIGTERM by a stranger",
            **_resting(),
        },
    ),
    (
        Fault(
            "stray",
            "A stray in a session of its own",
            "the fake leaves a grandchild that ignores SIGTERM; then the API server gets SIGKILL",
            death=True,
        ),
        {**_up("strays", order="strays"), **_resting()},
    ),
    (
        Fault(
            "port-child",
            "A child keeps the port",
            "the fake leaves a child with the listening socket; then the API server gets SIGKILL",
            death=True,
        ),
        {
            **_up("strays", order="strays"),
            "starting": "nobody listens yet: the child would be a stray like any other (row above)",
            **_resting(),
        },
    ),
    (
        Fault(
            "stranger", "A foreign server takes the port", "the test listens there, and orders again where one is due"
        ),
        {
            "starting": (End.BLOCKED, "wait"),
            **dict.fromkeys(
                ("checking", "idle", "busy", "suspect", "draining", "stopping"),
                "vLLM listens, alone and without SO_REUSEPORT: the kernel refuses the stranger",
            ),
            "clearing": (End.BLOCKED, "wait"),
            "backoff": (End.BACKOFF, "refuse"),
            "failed": (End.FAILED, "refuse"),
            "stopped": (End.STOPPED, "refuse"),
            "blocked": "it is what this phase is made of",
        },
    ),
    (
        Fault("metrics-garbage", "/metrics: garbage", "the fake answers bytes that are no metrics"),
        {
            **dict.fromkeys(("starting", "checking"), "/metrics is not read in this phase"),
            **dict.fromkeys(("idle", "busy"), (End.SAME, "ask")),
            "suspect": (End.SAME, "doubt"),
            "draining": (End.OTHER, "time"),
            "stopping": "/metrics is not read in this phase",
            **_resting(),
        },
    ),
    (
        Fault("metrics-500", "/metrics: 500", "the fake answers with this status"),
        {
            **dict.fromkeys(("starting", "checking"), "/metrics is not read in this phase"),
            **dict.fromkeys(("idle", "busy"), (End.SAME, "doubt")),
            "suspect": (End.SAME, "doubt"),
            "draining": (End.OTHER, "time"),
            "stopping": "/metrics is not read in this phase",
            **_resting(),
        },
    ),
    (
        Fault("health-503", "/health: 503", "the fake answers with this status, then with 200 again"),
        {
            "starting": _NO_HTTP,
            "checking": (End.SAME, "doubt"),
            **dict.fromkeys(("idle", "busy", "suspect"), (End.SAME, "go on")),
            "draining": (End.OTHER, "order"),
            "stopping": "/health is not read in this phase",
            **_resting(),
        },
    ),
    (
        Fault("log-flood", "The log is flooded", "the fake writes 5 MB a second"),
        {
            "starting": _NO_HTTP,
            **dict.fromkeys(("checking", "idle", "busy", "suspect"), (End.SAME, "go on")),
            **dict.fromkeys(("draining", "stopping"), (End.OTHER, "order")),
            **_resting(),
        },
    ),
    (
        Fault("log-deleted", "The log file is deleted", "the test removes it"),
        {**_up("go on", End.SAME), **_resting("no launch writes a log in this phase")},
    ),
    (
        Fault("supervisor-sigkill", "Supervisor: SIGKILL", "`kill -9` of arcopsd; a new one is started"),
        {
            **_up("adopt", End.SAME, order="take up"),
            **_same_at_rest("take up", (End.ANEW, "take up"), "rest"),
        },
    ),
    (
        Fault("supervisor-sigterm", "Supervisor: SIGTERM", "`kill` of arcopsd; a new one is started when it has ended"),
        {**_up("leave", order="take up"), **_same_at_rest("take up", (End.ANEW, "take up"), "rest")},
    ),
    (
        Fault("keeper-sigkill", "Keeper: SIGKILL", "`kill -9` of the keeper"),
        {**_up("go on", End.SAME), **_resting()},
    ),
    (
        Fault("record-removed", "The launch record is removed", "the test removes it under a supervisor that lives"),
        {**_up("go on", End.SAME), **_resting("there is no launch record in this phase")},
    ),
    (
        Fault(
            "record-torn",
            "The launch record is torn",
            "the test cuts it; the supervisor gets SIGKILL, a new one starts",
        ),
        {
            **dict.fromkeys(("starting", "idle", "busy"), (End.BLOCKED, "orphan")),
            **dict.fromkeys(("checking", "suspect", "draining", "stopping"), _ORPHANED),
            "clearing": (End.OTHER, "take up"),
            "backoff": (End.ANEW, "take up"),
            "failed": (End.FAILED, "latch"),
            "stopped": (End.STOPPED, "rest"),
            "blocked": (End.BLOCKED, "wait"),
        },
    ),
    (
        Fault(
            "database-locked",
            "The database is locked",
            "the test opens an exclusive transaction until the end is there",
        ),
        {**_up("go on", End.SAME), **_same_at_rest("go on", (End.BACKOFF, "go on"), "rest")},
    ),
    (
        Fault("second-daemon", "A second arcopsd of the same instance", "the test starts one, which has to end with 4"),
        {
            **dict.fromkeys(PHASES, "it is refused before it looks at any phase: columns starting, idle and stopped"),
            **dict.fromkeys(("starting", "idle"), (End.SAME, "one daemon")),
            "stopped": (End.STOPPED, "one daemon"),
        },
    ),
    (
        Fault(
            "order-switch",
            "A second order: switch",
            "`switch` to another profile, with --replace where one is under way",
        ),
        {
            **dict.fromkeys(("starting", "checking"), (End.OTHER, "overtake")),
            **dict.fromkeys(("idle", "busy", "suspect"), (End.OTHER, "obey")),
            **dict.fromkeys(("draining", "stopping"), (End.ANEW, "overtake")),
            "clearing": (End.ANEW, "overtake"),
            **dict.fromkeys(("backoff", "failed", "stopped"), (End.OTHER, "obey")),
            "blocked": (End.BLOCKED, "refuse"),
        },
    ),
    (
        Fault("order-stop", "A second order: stop", "`stop`"),
        dict.fromkeys(PHASES, (End.STOPPED, "obey")),
    ),
    (
        Fault("client-leaves", "A client leaves in the middle of its stream", "the test closes the connection"),
        {
            **dict.fromkeys(PHASES, _NO_STREAM),
            **dict.fromkeys(("busy", "suspect"), (End.SAME, "go on")),
            "draining": (End.OTHER, "drained"),
        },
    ),
)

FAULTS: Mapping[str, Fault] = {fault.id: fault for fault, _ in ROWS}

_HASTY = frozenset(
    {
        *(
            (fault, phase)
            for fault in ("engine-sigstop", "all-sigstop", "term-deaf", "stray", "port-child")
            for phase in PHASES
        ),
        *((fault, phase) for fault in ("metrics-garbage", "metrics-500") for phase in ("idle", "busy", "draining")),
    }
)


def entries() -> Iterator[Cell | Absent]:
    """Every pair, row by row."""
    for fault, ends in ROWS:
        for phase in PHASES:
            match ends[phase]:
                case str(reason):
                    yield Absent(fault.id, phase, reason)
                case (end, rule):
                    yield Cell(fault.id, phase, end, rule, hasty=(fault.id, phase) in _HASTY)


CELLS: tuple[Cell, ...] = tuple(entry for entry in entries() if isinstance(entry, Cell))

_ALIKE = frozenset(
    {
        *("api-exit-3", "api-sigsegv", "stray", "port-child", "all-sigstop", "metrics-500", "log-flood", "log-deleted"),
        *("keeper-sigkill", "record-removed", "database-locked", "api-exit-0", "metrics-garbage", "health-503"),
    }
)
"""Faults whose cells resemble those of another row, or of their own row in another phase."""
_TELLING = frozenset({"starting", "idle", "blocked"})

DAILY: tuple[Cell, ...] = tuple(cell for cell in CELLS if cell.fault not in _ALIKE or cell.phase in _TELLING)
"""What every run of the tests plays; `make matrix` plays them all."""
