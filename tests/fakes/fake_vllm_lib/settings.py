"""How the fake behaves: its pace, and how it misbehaves.

Every field may be given in the environment as FAKE_VLLM_<NAME> and changed later by a POST of a JSON object to
/fake/misbehave. A name or value that is not understood is refused loudly: a typing error in a test must not pass
for good behaviour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import get_type_hints

PREFIX = "FAKE_VLLM_"
STRIKES = ("hang", "exit_code", "die_signal", "kill_engine", "garbage", "started_anew")
"""What waits for `strike_after` when it comes from the environment."""

WORDS_OF = {"tool_fault": ("no_json", "misfit", "text", "missing"), "tool_fault_in": ("stream", "whole")}


class SettingsError(Exception):
    """A setting that does not exist or cannot have this value."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds, speeds in tokens a second."""

    # Start
    start_seconds: float = 0.3
    """From the first line to readiness, spread over the stages."""
    shards: int = 4
    """Checkpoint shards, one progress line each."""
    weights_gib: float = 0.0
    """What loading the model takes by its word; no word at 0."""
    stall_at: str = ""
    """Name of the stage at which the start stands still: no line, no processor time."""
    busy_at: str = ""
    """Name of the stage at which the start goes on for `busy_seconds` without a line, but with processor time."""
    busy_seconds: float = 2.0
    start_gate: str = ""
    """A file: while it is there the start waits before the weights and says so; `exit N` in it ends the start so."""
    fail_with: str = ""
    """Name of a failure of failures.py that ends the start."""
    fail_at: str = ""
    """Stage of that failure; empty for the one where it really happens."""
    fail_starts: int = 0
    """Only the first N starts fail (counted in `starts_file`); 0 for every start."""
    starts_file: str = ""
    """A file that gets one line for each start: `PID MODEL`."""
    any_model: bool = False
    """Take any model name, whether there is such a folder or not."""
    reuse_port: bool = False
    """Bind with SO_REUSEPORT, as several API servers of one vLLM do; a single one sets SO_REUSEADDR only."""

    shared_memory: bool = False
    """Make shared memory and a named semaphore as well, where it makes sockets (litter.py)."""

    # Serving
    decode_speed: float = 500.0
    """Engine steps a second while nothing is prefilled; one token a request and step without speculation."""
    prefill_speed: float = 20000.0
    kv_tokens: int = 65536
    """Size of the KV cache in tokens."""
    acceptance: float = 0.7
    """Probability that a draft token is accepted, the ones before it having been accepted."""
    workers: int = 0
    """Worker processes below EngineCore; 0 is the in-process executor of a single card."""
    served_name: str = ""
    """A name to serve instead of the one that was asked for."""
    eos_after: int = 0
    """An answer ends by itself after so many tokens, or up to twice as many, by its prompt; 0 for never."""
    reasoning_tokens: int = 6
    """What a chat with an answer of its own thinks first, where the server has a reasoning parser."""
    chat_answer: str = ""
    """What every chat is answered; empty for the answer that its question asks for (chat.py)."""
    multimodal: bool = False
    """Take images."""
    stats_every: float = 10.0
    """How often the `Engine 000: Avg prompt throughput` line comes while there is work."""

    # Ending
    stop_seconds: float = 0.05
    """How long EngineCore takes to end after SIGTERM."""
    lost_streams: bool = False
    """On SIGTERM without a shutdown timeout open streams fall silent, and the server waits until their clients leave.

    The real one does so when EngineCore is killed before it could say `abort`: a race, lost on a loaded machine.
    """
    engine_death_exit: float = 0.5
    """From the death of EngineCore to the exit of the API server (up to 5 s in the real one)."""
    init_term_gap: float = 2.0
    """A second SIGTERM during engine start counts if it comes this long after the first."""

    # Misbehaviour
    hang: bool = False
    """Answer /health and /metrics, but let every request stall and the counters stand still."""
    answer_gate: str = ""
    """A file: while it is there, it hangs."""
    exit_code: int = -1
    """End at once with this code; -1 for not at all."""
    die_signal: int = 0
    """End at once by this signal; 0 for not at all."""
    kill_engine: bool = False
    """Kill EngineCore with SIGKILL."""
    garbage: bool = False
    """Answer with one token repeated."""
    astray: bool = False
    """Answer in earnest, and something else than usual."""
    corrupted: int = 0
    """Requests with NaN in their logits that /metrics tells of; there is no such series at 0."""
    segv_hangs: bool = False
    """EngineCore has a handler of SIGSEGV that never comes back, as the real one's deadlocks on a corrupt heap."""
    strike_after: float = 0.0
    """Those of the environment strike this long after readiness."""
    sigterm_deaf: bool = False
    """Neither the API server nor EngineCore hears SIGTERM."""
    escape: bool = False
    """At the start leave a grandchild in a session of its own that ignores SIGTERM."""
    escape_seconds: float = 60.0
    """How long an escaped child, or one that holds the port, lives if nobody ends it."""
    hold_port: bool = False
    """At readiness leave a child that keeps the listening socket."""
    log_bytes_per_second: int = 0
    """Flood the log once ready."""
    metrics_garbage: bool = False
    """Answer /metrics with something that is not metrics."""
    metrics_status: int = 0
    """Answer /metrics with this status; 0 for 200."""
    health_status: int = 0
    """Answer /health with this status; 0 for the true one."""

    # Misbehaviour of answers. Requests are counted from 1, anew whenever settings are changed.
    flip_at: int = -1
    """Position, from 0, at which an answer has the second likeliest token instead of the likeliest; -1 for nowhere."""
    flip_from: int = 1
    """Only where so many requests run at once."""
    flip_nth: int = 0
    """Only in the nth request; 0 for all."""
    error_every: int = 0
    """Every nth completion or chat is answered with 500; 0 for none."""
    cut_every: int = 0
    """Every nth stream breaks off in the middle, without a word."""
    cut_after: int = 2
    """Events of a stream that breaks off."""
    wrong_chat: bool = False
    """A chat is answered with something else than what its question asks for."""
    tool_fault: str = ""
    """How tool calls are broken: `no_json`, `misfit` (to the schema), `text` (left in the content), `missing`."""
    tool_fault_in: str = ""
    """Only in `stream` or only in `whole` answers; empty for both."""
    pretend_cached: bool = False
    """Every prompt counts as found in the prefix cache, and is computed as fast."""
    drop_counters: str = ""
    """Series whose names hold one of these words (separated by commas) are not on the metrics page."""
    started_anew: bool = False
    """The counters begin at 0 and the start of the process is now, as if it had been restarted."""
    slow_down: float = 0.0
    """Steps take longer and longer: by this share of their length for each minute since it was set."""
    leak_kib: int = 0
    """Memory that the API server loses at each request, in KiB."""
    keep_slots: bool = False
    """The requests of clients that went away go on, and never end."""

    def __post_init__(self) -> None:
        for name, known in WORDS_OF.items():
            if getattr(self, name) not in ("", *known):
                raise SettingsError(f"{name}: {getattr(self, name)!r} is none of {', '.join(known)}")

    def changed(self, values: Mapping[str, object]) -> "Settings":
        """These settings with some of them changed; SettingsError names what is not understood."""
        hints = get_type_hints(Settings)
        checked: dict[str, object] = {}
        for name, value in values.items():
            if name not in hints:
                raise SettingsError(f"no setting {name!r}; there are {', '.join(sorted(hints))}")
            checked[name] = _converted(name, value, hints[name])
        return replace(self, **checked)  # pyright: ignore[reportArgumentType]  # each was converted to its field's type

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> "Settings":
        given = {
            name.removeprefix(PREFIX).lower(): value for name, value in environment.items() if name.startswith(PREFIX)
        }
        return Settings().changed(given)

    def without_strikes(self) -> "Settings":
        """The same, with what `strike_after` holds back at its default."""
        return replace(self, **{field.name: field.default for field in fields(Settings) if field.name in STRIKES})


def _converted(name: str, value: object, kind: type) -> object:
    if kind is bool:
        known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
        word = str(value).lower()
        if word not in known:
            raise SettingsError(f"{name}: {value!r} is not a yes or no")
        return known[word]
    try:
        return kind(value)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{name}: {value!r} is not a {kind.__name__}") from error
