"""A launch: everything that is needed to start one backend and to judge it, resolved from a profile.

The profile's models are imported for the type checker only: who reads a launch need not load pydantic.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from arcops.core import speculation
from arcops.core.affinity import affinity

if TYPE_CHECKING:
    from arcops.core.profile import Profile


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

    @property
    def stop(self) -> float:
        """The longest that a stop may take by these, from the order to `stopped` or `stuck`.

        Beside them, what outlives SIGKILL is waited for (`KILL_PATIENCE` in core/decide/falling.py).
        """
        return self.drain + self.stop_grace + self.clear


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a failed backend is started again. Times in seconds."""

    first_delay: float = 2.0
    factor: float = 2.0
    longest_delay: float = 300.0
    per_hour: int = 6
    """More failures than this within an hour latch `failed`."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A question whose greedy answer is known."""

    prompt: str
    expected: str
    exactly: bool
    """The text is `expected`, white space around it aside; otherwise `expected` stands somewhere in it."""
    max_tokens: int = 16


@dataclass(frozen=True, slots=True)
class Checks:
    """What a backend must show before it is called serving, and what is watched while it serves."""

    first_answer: bool = True
    """Ask for one token, and get it."""
    idle_probe: float = 300.0
    """Seconds without a request after which an idle backend is asked as well; 0 for never."""
    known_answer: KnownAnswer | None = None
    """What every probe asks, in place of one token."""
    degenerate: bool = False
    """Judge the answers of probes, of some tokens then, also where none is known."""
    acceptance_floor: float | None = None
    """0..1: a lower acceptance of draft tokens is told."""

    @property
    def asks_first(self) -> bool:
        """A start is asked something before it serves."""
        return self.first_answer or self.known_answer is not None


@dataclass(frozen=True, slots=True)
class Qualifying:
    """What the gate asks of this profile beside what it asks of every one."""

    chat_prompt: str | None = None
    """A question of the profile's own, in place of the gate's."""
    chat_expect: str | None = None
    """What must stand somewhere in its answer; set where the prompt is."""
    long_tokens: int | None = None
    """Length of the long request's prompt in tokens; None: the gate chooses."""
    headroom: int | None = None
    """Bytes of each card that must be left when all else is done; None: the gate's own floor."""
    tools: bool = True
    """Tool calls are asked for."""
    image: str | None = None
    """A picture to ask about, absolute path; nobody has looked whether it is there."""


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
    allow_memory: int = 64 << 20
    """Bytes of each card that all others may hold together."""
    speculates: bool = False
    without_draft: str | None = None
    """The profile that this one extends and that does not speculate: what to switch to when the draft is to blame."""
    on_failure: str | None = None
    """The profile that takes its place when it has failed for good."""
    limits: Limits = field(default_factory=Limits)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    checks: Checks = field(default_factory=Checks)
    qualification: Qualifying = field(default_factory=Qualifying, compare=False)
    """What is asked of it by hand, once: a backend that runs is the same whatever this says."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """What a profile leaves to the machine, found by config/: absolute paths and the cards that were picked."""

    vllm: str
    model: str
    draft: str | None
    """The draft's checkpoint, where the speculative method has one."""
    setup: str | None
    cards: tuple[str, ...]
    ordinals: tuple[int, ...]
    """The number of each card as its driver's runtime counts, from 0, in the order of `cards`."""
    locks: tuple[str, ...]
    tokenizer: str | None = None
    api_key_file: str | None = None
    image: str | None = None
    """What `qualification.image` names."""


QUIET_PATHS = "/health,/metrics,/v1/models"
"""What the supervisor asks all the time: vLLM shall not log it."""


def launch_of(name: str, profile: "Profile", bindings: Bindings) -> Launch:
    """The launch that `profile`, called `name`, means on this machine. The profile is one without faults."""
    limits = _limits(profile)
    return Launch(
        profile=name,
        argv=tuple(_argv(profile, bindings, limits)),
        environment=tuple(sorted({**profile.runtime.env, **_affinity(profile.device.kind, bindings)}.items())),
        setup=bindings.setup,
        host=profile.server.host,
        port=profile.server.port,
        served_name=profile.served_name,
        api_key_file=bindings.api_key_file,
        locks=bindings.locks,
        cards=bindings.cards,
        allow_holders=profile.device.allow_holders,
        allow_memory=profile.device.allow_memory,
        speculates=speculation.config_of(profile.speculation, bindings.draft) is not None,
        on_failure=profile.on_failure,
        limits=limits,
        restart=RestartPolicy(
            first_delay=profile.restart.first_delay,
            factor=profile.restart.factor,
            longest_delay=profile.restart.longest_delay,
            per_hour=profile.restart.per_hour,
        ),
        checks=_checks(profile),
        qualification=_qualification(profile, bindings),
    )


def _checks(profile: "Profile") -> Checks:
    checks, known = profile.checks, None
    if checks.known_answer is not None:
        asked = checks.known_answer
        exactly = asked.equals is not None
        known = KnownAnswer(
            asked.prompt, (asked.equals if exactly else asked.contains) or "", exactly, asked.max_tokens
        )
    return Checks(
        first_answer=checks.first_answer,
        idle_probe=checks.idle_probe,
        known_answer=known,
        degenerate=checks.degenerate,
        acceptance_floor=checks.acceptance_floor,
    )


def _qualification(profile: "Profile", bindings: Bindings) -> Qualifying:
    asked = profile.qualification
    return Qualifying(
        chat_prompt=None if asked.chat is None else asked.chat.prompt,
        chat_expect=None if asked.chat is None else asked.chat.expect,
        long_tokens=asked.long_tokens,
        headroom=None if asked.headroom_mib is None else asked.headroom_mib << 20,
        tools=asked.tools,
        image=bindings.image,
    )


def _affinity(kind: str, bindings: Bindings) -> dict[str, str]:
    """The variables that let vLLM see the locked cards and no other (law 1: a lock alone keeps nobody off a card)."""
    return affinity(kind, bindings.ordinals)


def _limits(profile: "Profile") -> Limits:
    limits = profile.limits
    shutdown = limits.shutdown_timeout
    if shutdown is None:
        shutdown = min(Limits().shutdown_timeout, limits.drain)
    return Limits(
        start_stall=limits.start_stall,
        drain=limits.drain,
        shutdown_timeout=float(int(shutdown)),
        stop_grace=limits.stop_grace,
        clear=limits.clear,
        stall_after=limits.stall_after,
        probe=limits.probe,
    )


def _argv(profile: "Profile", bindings: Bindings, limits: Limits) -> Iterator[str]:
    """The command line, in an order that depends on nothing but the keys that are set."""
    yield from (bindings.vllm, "serve", bindings.model)
    yield from ("--host", profile.server.host, "--port", str(profile.server.port))
    yield from ("--served-model-name", profile.served_name)
    yield from _plain_flags(profile, bindings)
    if profile.parsers.tool_call is not None:
        yield "--enable-auto-tool-choice"
    yield from _json_flag("--compilation-config", _compilation(profile))
    if profile.tensor_parallel_size > 1:
        yield from ("--tensor-parallel-size", str(profile.tensor_parallel_size))
    yield from _json_flag("--speculative-config", speculation.config_of(profile.speculation, bindings.draft))
    yield from ("--shutdown-timeout", str(int(limits.shutdown_timeout)))
    yield from ("--disable-access-log-for-endpoints", QUIET_PATHS)
    yield from profile.extra_args


def _plain_flags(profile: "Profile", bindings: Bindings) -> Iterator[str]:
    # Here and not above: the package loads pydantic, and whoever has a profile has it already.
    from arcops.core.profile.flags import SERVER_FLAGS, Form

    for flag in SERVER_FLAGS:
        section, _, key = flag.key.partition(".")
        value: object = getattr(getattr(profile, section), key)
        if flag.key == "model.tokenizer":
            value = bindings.tokenizer
        if value is None:
            continue
        match flag.form:
            case Form.VALUE:
                yield from (flag.name, str(value))
            case Form.EITHER:
                yield flag.name if value else flag.name.replace("--", "--no-", 1)
            case _:
                assert_never(flag.form)


def _compilation(profile: "Profile") -> dict[str, speculation.Json] | None:
    """vLLM's CompilationConfig, as far as the profile speaks of it."""
    config: dict[str, speculation.Json] = {}
    if profile.compilation.cudagraph_mode is not None:
        config["cudagraph_mode"] = profile.compilation.cudagraph_mode
    if profile.compilation.capture_sizes is not None:
        config["cudagraph_capture_sizes"] = profile.compilation.capture_sizes
    return config or None


def _json_flag(name: str, value: dict[str, speculation.Json] | None) -> tuple[str, ...]:
    return () if value is None else (name, json.dumps(value, separators=(",", ":")))


API_KEY_VARIABLE = "VLLM_API_KEY"
"""Where vLLM looks for the API key of its own server."""
_SERVICE_VARIABLES = frozenset(
    {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "INVOCATION_ID", "JOURNAL_STREAM", "MANAGERPID", "MAINPID"}
)
_SERVICE_PREFIXES = ("LISTEN_", "SYSTEMD_", "WATCHDOG_")
_PYTHON_VARIABLES = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PYTHONPATH", "PYTHONHOME"})


def environment_of(base: Mapping[str, str], setup_env: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """The backend's environment: `base` (the supervisor's), over it what the setup script set, over it the profile's.

    What systemd told the supervisor is for the supervisor alone, and its Python is not the runtime's: both are left out
    of `base`. `setup_env` is the environment after the script, or the part of it that the script made; only what
    differs from `base` counts. The script may set Python's variables, systemd's never.
    The API key is not here: whoever starts the backend reads it from `launch.api_key_file`. One that was inherited is
    left out: the supervisor does not use it, and could not ask a backend that does.
    """
    environment = {name: value for name, value in base.items() if name not in _PYTHON_VARIABLES}
    environment.update({name: value for name, value in setup_env.items() if base.get(name) != value})
    environment = {n: value for n, value in environment.items() if n != API_KEY_VARIABLE and not _is_the_services(n)}
    if base.get("VIRTUAL_ENV") and "PATH" in environment:
        environment["PATH"] = _path_without(environment["PATH"], f"{base['VIRTUAL_ENV'].rstrip('/')}/bin")
    environment.update(launch.environment)
    return environment


def _path_without(path: str, directory: str) -> str:
    return ":".join(part for part in path.split(":") if part.rstrip("/") != directory)


def _is_the_services(name: str) -> bool:
    return name in _SERVICE_VARIABLES or name.startswith(_SERVICE_PREFIXES)


HIDDEN = "(hidden)"

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PASSPHRASE)S?(?=_|$)", re.IGNORECASE)
_URL_SECRET = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def hidden(name: str, value: str) -> str:
    """`value` as it may be shown: hidden if the variable's name looks like a secret's, without a URL's credentials."""
    return HIDDEN if _SECRET_NAME.search(name) else _URL_SECRET.sub(HIDDEN, value)


def redact(launch: Launch) -> Launch:
    """`launch` as it may be shown."""
    return replace(launch, environment=tuple((name, hidden(name, value)) for name, value in launch.environment))
