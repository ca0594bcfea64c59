"""A launch: everything that is needed to start one backend and to judge it, resolved from a profile."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds."""

    start_stall: float = 600.0
    """A start that shows no progress (log, processor time) for this long has stalled."""
    drain: float = 60.0
    """How long open requests may go on when the backend is to stop."""
    shutdown_timeout: float = 5.0
    """vLLM's own `--shutdown-timeout`: the last part of the drain, when new requests are refused."""
    stop_grace: float = 60.0
    """From the first SIGTERM (after the drain) to `cgroup.kill`."""
    clear: float = 60.0
    """From the last process gone to port and memory clear; past it the backend is `stuck`."""
    stall_after: float = 60.0
    """Work in flight and no progress for this long: `suspect`."""
    probe: float = 120.0
    """How long the first answer, and a probe of a suspect backend, may take."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a failed backend is started again. Times in seconds."""

    first_delay: float = 2.0
    factor: float = 2.0
    longest_delay: float = 300.0
    per_hour: int = 6
    """More failures than this within an hour latch `failed`."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What a backend must show before it is called serving."""

    first_answer: bool = True
    """Ask for one token, and get it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One backend as it would be started: the same profile gives the same launch."""

    profile: str
    argv: tuple[str, ...]
    """The command line, executable first; never a shell string."""
    environment: tuple[tuple[str, str], ...]
    """What the profile adds to the environment, sorted by name."""
    setup: str | None
    """A script that is sourced once before the launch (oneAPI's setvars.sh), absolute path."""
    host: str
    port: int
    served_name: str
    """What `/v1/models` must name."""
    api_key_file: str | None
    """A file whose first line is the API key; handed to vLLM in its environment, never in argv."""
    locks: tuple[str, ...]
    """Paths that are flocked while the backend lives: the cards in address order, or the CPU's lock file."""
    cards: tuple[str, ...]
    """PCI addresses of the cards, in order; empty on the CPU."""
    allow_holders: tuple[str, ...] = ()
    """Commands (comm) that may hold memory of a card beside us, a desktop's compositor for one."""
    speculates: bool = False
    limits: Limits = field(default_factory=Limits)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    checks: Checks = field(default_factory=Checks)
