"""How far a start of vLLM has come, read from its log.

The lines are prose, not an interface: progress is *shown* from them, but ready means that HTTP answered. Formats are
those of vLLM 0.24 to 0.32 with both model runners, on CPU, CUDA and XPU. A line without anything known changes nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

_LONGEST_LINE = 4096
"""Characters of a line that are looked at. The longest one, the engine's configuration, starts with what counts."""
_LONGEST_DETAIL = 160


class Stage(Enum):
    """The stages of a start in the order in which vLLM takes them; not every start has all of them."""

    LAUNCHED = "launched"
    CONFIGURING = "importing and configuring"
    ENGINE = "starting the engine"
    WEIGHTS = "loading weights"
    DRAFT_WEIGHTS = "loading the draft"
    COMPILING = "profiling and compiling"
    CACHE = "making the KV cache"
    GRAPHS = "capturing graphs"
    SERVER = "starting the server"

    @property
    def order(self) -> int:
        """0 for the first stage, and so on."""
        return _ORDER[self]


_ORDER: dict[Stage, int] = {stage: number for number, stage in enumerate(Stage)}


@dataclass(frozen=True, slots=True)
class StartProgress:
    """The stage that a start has reached, and what was learned on the way. None: not said (yet)."""

    stage: Stage = Stage.LAUNCHED
    fraction: float | None = None
    """0..1 within the stage, where the log tells."""
    detail: str = ""
    """The last line that said something known, made fit for one line of text."""
    version: str | None = None
    """vLLM's version."""
    architecture: str | None = None
    draft_architecture: str | None = None
    weights_seconds: float | None = None
    """Time that the target's weights took to load; the draft's are not in it."""
    weights_gib: float | None = None
    """Memory that all weights take, the draft's included, in GiB."""
    kv_cache_gib: float | None = None
    kv_cache_tokens: int | None = None
    max_concurrency: float | None = None
    """Requests of full context length that the KV cache holds."""

    @property
    def complete(self) -> bool:
        """vLLM says that it serves."""
        return self.stage is Stage.SERVER and self.fraction == 1.0


_Step = Callable[[StartProgress, re.Match[str]], StartProgress]


def _to(progress: StartProgress, stage: Stage, fraction: float | None = None) -> StartProgress:
    """At least at `stage`. A stage that lies behind is not gone back to, nor does a fraction of it count."""
    if stage.order < progress.stage.order:
        return progress
    return replace(progress, stage=stage, fraction=fraction)


def _enter(stage: Stage, fraction: float | None = None) -> _Step:
    return lambda progress, _: _to(progress, stage, fraction)


def _version(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    return replace(_to(progress, Stage.CONFIGURING), version=match[1])


def _architecture(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    """The target is resolved first, then the draft."""
    progress = _to(progress, Stage.CONFIGURING)
    if progress.architecture in (None, match[1]):
        return replace(progress, architecture=match[1])
    return replace(progress, draft_architecture=match[1])


def _engine(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    return replace(_to(progress, Stage.ENGINE), version=match[1])


def _load(progress: StartProgress, _: re.Match[str]) -> StartProgress:
    """Workers of a tensor-parallel start say this one after the other: the fraction stays."""
    return progress if progress.stage is Stage.WEIGHTS else _to(progress, Stage.WEIGHTS)


def _shards(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    """The second set of shards is the draft's: one of the model runners does not announce it."""
    done, total = int(match[1]), int(match[2])
    stage = Stage.WEIGHTS if progress.weights_seconds is None else Stage.DRAFT_WEIGHTS
    return _to(progress, stage, done / total if 0 < total >= done else None)


def _weights_took(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    if progress.weights_seconds is None:
        progress = replace(progress, weights_seconds=float(match[1]))
        return _to(progress, Stage.WEIGHTS, 1.0)
    return _to(progress, progress.stage, 1.0) if progress.stage is Stage.DRAFT_WEIGHTS else progress


def _model_took(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    return replace(_to(progress, Stage.COMPILING), weights_gib=float(match[1]))


def _kv_memory(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    return replace(_to(progress, Stage.CACHE), kv_cache_gib=float(match[1]))


def _kv_size(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    return replace(_to(progress, Stage.CACHE), kv_cache_tokens=int(match[1].replace(",", "")))


def _concurrency(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    return replace(_to(progress, Stage.CACHE), max_concurrency=float(match[1].replace(",", "")))


def _capture(progress: StartProgress, match: re.Match[str]) -> StartProgress:
    return _to(progress, Stage.GRAPHS, min(100, int(match[1])) / 100)


_NUMBER = r"(\d{1,12}(?:\.\d{1,12})?)"
_STEPS: tuple[tuple[re.Pattern[str], _Step], ...] = tuple(
    (re.compile(pattern, re.ASCII), step)
    for pattern, step in (
        (r"(?:█ {1,8}|API server )version (\d[\w.+]{0,40})", _version),
        (r"non-default args: ", _enter(Stage.CONFIGURING)),
        (r"Resolved architecture: (\w{1,100})", _architecture),
        (r"Initializing a V1 LLM engine \(v(\d[\w.+]{0,40})\)", _engine),
        (r"Starting to load model |Loading model from scratch", _load),
        (r"Loading \w{1,40} checkpoint shards: +\d{1,3}% Completed \| (\d{1,6})/(\d{1,6})", _shards),
        (rf"Loading weights took {_NUMBER} seconds", _weights_took),
        (r"Loading drafter model", _enter(Stage.DRAFT_WEIGHTS)),
        (rf"Model loading took {_NUMBER} GiB ", _model_took),
        (r"Dynamo bytecode transform time|Compiling a graph for|Directly load ", _enter(Stage.COMPILING)),
        (r"torch\.compile took |Initial profiling/warmup run took", _enter(Stage.COMPILING)),
        (r"Profiling (?:CUDA|XPU) graph memory|Estimated (?:CUDA|XPU) graph memory", _enter(Stage.COMPILING)),
        (rf"Available KV cache memory: {_NUMBER} GiB", _kv_memory),
        (rf"Explicitly set \({_NUMBER}/[\d.]+\) GiB for KV cache", _kv_memory),
        (r"GPU KV cache size: (\d[\d,]{0,20}) tokens", _kv_size),
        (r"Maximum concurrency for [\d,]{1,20} tokens per request: (\d[\d,]{0,20}(?:\.\d{1,12})?)x", _concurrency),
        (r"Capturing [\w ]{0,40}graphs?(?: \([^()]{0,80}\))?: +(\d{1,3})%", _capture),
        (r"Graph capturing finished in", _enter(Stage.GRAPHS, 1.0)),
        (r"init engine \([^()]{0,80}\) took|Supported tasks: ", _enter(Stage.SERVER)),
        (r"Starting vLLM (?:API )?server|Started server process", _enter(Stage.SERVER)),
        (r"Application startup complete", _enter(Stage.SERVER, 1.0)),
    )
)
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[@-~]")
_PREFIX = re.compile(
    r"(?:\([\w.]{1,40} pid=\d{1,10}\) )?(?:[A-Z]{4,8} )?(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[\w.]+:\d+\] )?"
)


def advance(progress: StartProgress, line: str) -> StartProgress:
    """The progress after one more line of the log (or one rewriting of a progress bar). It never goes back a stage."""
    if progress.complete:
        return progress
    text = _ANSI.sub("", _last_writing(line))
    if not text:
        return progress
    if progress.stage is Stage.LAUNCHED:
        progress = _to(progress, Stage.CONFIGURING)
    understood = False
    for pattern, step in _STEPS:
        match = pattern.search(text)
        if match is not None:
            progress, understood = step(progress, match), True
    return replace(progress, detail=_one_line(text)) if understood else progress


def _last_writing(line: str) -> str:
    """A bar that rewrites itself with carriage returns shows only what it wrote last."""
    return line.rstrip("\r\n").rpartition("\r")[2][:_LONGEST_LINE].strip()


def _one_line(text: str) -> str:
    """The line without vLLM's prefix, without its banner's blocks and anything unprintable, and cut."""
    text = _PREFIX.sub("", text, count=1)
    shown = (char if char.isprintable() and char not in "█▄▀" else " " for char in text[:_LONGEST_DETAIL])
    words = "".join(shown).split()
    return " ".join(words)
