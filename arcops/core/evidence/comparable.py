"""May two runs be called comparable? In what they differ, a sentence each; what is unknown is never called equal.

Left out is what only says where and when: port, host, served name, launch, a card's address, logs, folders, times.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from arcops.core.difference import Change, of_arguments, of_variables
from arcops.core.evidence.environment import changes, unread_in_either
from arcops.core.evidence.environment import words as words_of_change
from arcops.core.evidence.measured import Measured
from arcops.core.evidence.run import Run
from arcops.core.evidence.setting import Configuration, ServerFacts, Setting

_NOISE_OPTIONS: Final = frozenset({"passes", "servers", "url", "model", "note"})
"""Options of a benchmark that change neither what was asked nor how: how often it was is shown, and averaged."""
_NOISE_FLAGS: Final = frozenset(
    {
        "program",
        "--host",
        "--port",
        "--uds",
        "--root-path",
        "--api-key",
        "--served-model-name",
        "--log-config-file",
        "--uvicorn-log-level",
        "--download-dir",
        "--shutdown-timeout",
        "--compilation-config.cache_dir",
    }
)
_NOISE_VARIABLES: Final = frozenset(
    {
        "PATH",
        "HOME",
        "TMPDIR",
        "VLLM_CACHE_ROOT",
        "VLLM_RPC_BASE_PATH",
        "VLLM_LOGGING_CONFIG_PATH",
        "VLLM_LOGGING_LEVEL",
        "VLLM_HOST_IP",
        "VLLM_PORT",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "XDG_CACHE_HOME",
        "DG_JIT_CACHE_DIR",
        "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR",
        "CUDA_CACHE_PATH",
        "SYCL_CACHE_DIR",
        "NEO_CACHE_DIR",
        "ZE_AFFINITY_MASK",
        "CUDA_VISIBLE_DEVICES",
    }
)
"""Where things are put, and which of several cards is taken: the cards themselves are compared."""
_NOISE_LABELS: Final = frozenset(
    {"engine", "num_gpu_blocks", "num_cpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency"}
)
"""Of `vllm:cache_config_info`: sizes that vLLM reckons anew at each launch from the memory it finds."""
_SPECULATION: Final = ("--speculative-", "--spec-", "-sc")
_MODEL_WORD: Final = "model"
"""The name that `difference` has for the word after `vllm serve`."""


class Part(Enum):
    """What a difference is in."""

    WORKLOAD = "workload"
    MODEL = "model"
    VERSION = "version"
    CONFIGURATION = "configuration"
    SPECULATION = "speculation"
    ENVIRONMENT = "environment"
    CARDS = "cards"


class Weight(Enum):
    """What a difference means for calling two runs comparable."""

    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """Nobody can tell, and it is too much not to know: not comparable."""
    UNPROVEN = "unproven"
    """Nobody recorded it: comparable as far as is known, and that is said."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two runs differ, or may differ."""

    part: Part
    words: str
    """A sentence without its full stop; the first run's value stands first."""
    weight: Weight = Weight.DIFFERENT


def differences(a: Measured, b: Measured) -> tuple[Difference, ...]:
    """Everything that stands between two runs and a comparison, what matters most first; empty where nothing does."""
    return (*_in_work(a, b), *_in_setting(a, b))


def comparable(found: Iterable[Difference]) -> bool:
    """Nothing is different, and nothing that decides is unknown."""
    return all(one.weight is Weight.UNPROVEN for one in found)


def but_for_speculation(found: Iterable[Difference]) -> tuple[Difference, ...]:
    """What is left when speculation may be switched on or off: the rule for an oracle, and for a speed-up."""
    return tuple(one for one in found if one.part is not Part.SPECULATION)


def unfit_as_oracle(run: Measured, oracle: Measured) -> str:
    """Why `oracle` cannot be the oracle of `run`, in one sentence; empty where it can.

    It has to be of the same workload and the same configuration, sequential, alone on its server, without speculation.
    """
    if run.run is None or oracle.run is None:
        return "one of the two has no run"
    if run.run.workload.digest != oracle.run.workload.digest:
        return "the oracle was asked another workload"
    reason = _not_alone(oracle.run) or _speculated(oracle)
    if reason:
        return reason
    left = [one for one in but_for_speculation(_in_setting(run, oracle)) if one.weight is not Weight.UNPROVEN]
    return f"the oracle has another configuration: {left[0].words}" if left else ""


def _not_alone(oracle: Run) -> str:
    """One request at a time is what makes an oracle: batches may flip a near tie."""
    sequential = [stage for stage in oracle.stages if stage.concurrency == 1]
    if not sequential:
        return "the oracle was not asked one request at a time"
    if any((stage.watched.most_running or 0) > 1 for stage in sequential):
        return "the oracle's server ran other requests beside its own"
    return ""


def _speculated(oracle: Measured) -> str:
    setting = oracle.setting
    if setting is None or oracle.run is None:
        return "nobody wrote down how the oracle's server was launched"
    drafted = any((stage.after.drafts or 0) > 0 for stage in oracle.run.stages)
    flags = of_arguments(("vllm", "serve"), setting.configuration.argv)
    if setting.server.speculates or drafted or any(_is_speculation(flag.name) for flag in flags):
        return "the oracle speculated itself"
    if setting.server.speculates is None and not setting.configuration.argv:
        return "nobody can tell whether the oracle speculated"
    return ""


def _in_work(a: Measured, b: Measured) -> Iterator[Difference]:
    if a.kind != b.kind:
        yield Difference(Part.WORKLOAD, f"one is a {a.kind}, the other a {b.kind}")
        return
    if a.run is None or b.run is None:
        if a.run is not b.run:
            yield Difference(Part.WORKLOAD, "only one of the two has a run")
        return
    first, second = a.run.workload, b.run.workload
    for change in of_variables(first.options, second.options):
        if change.name not in _NOISE_OPTIONS:
            yield Difference(Part.WORKLOAD, _changed(f"the option {change.name}", change))
    if first.digest != second.digest:
        yield Difference(Part.WORKLOAD, "the requests are not the same: prompts, lengths or sampling differ")


def _in_setting(a: Measured, b: Measured) -> Iterator[Difference]:
    if a.setting is None or b.setting is None:
        if a.run is not None or b.run is not None:
            yield Difference(Part.CONFIGURATION, "nobody wrote down where one of them was measured", Weight.UNKNOWN)
        return
    yield from _in_model(a, b, a.setting, b.setting)
    launches_known = bool(a.setting.configuration.argv and b.setting.configuration.argv)
    yield from _in_server(a.setting.server, b.setting.server, launches_known)
    yield from _in_configuration(a.setting.configuration, b.setting.configuration)
    yield from _in_environment(a, b, a.setting, b.setting)
    yield from _in_cards(a.setting, b.setting)


def _in_model(a: Measured, b: Measured, first: Setting, second: Setting) -> Iterator[Difference]:
    # Where both environments are there, the checkpoints are compared by their content.
    if a.environment is not None and b.environment is not None:
        return
    roots = first.server.model_root, second.server.model_root
    if None in roots:
        if first.configuration.argv and second.configuration.argv:
            return
        yield Difference(Part.MODEL, "which checkpoint was served is not known of both", Weight.UNKNOWN)
    elif roots[0] != roots[1]:
        yield Difference(Part.MODEL, f"the checkpoint is {roots[0]}, then {roots[1]}")


def _in_server(first: ServerFacts, second: ServerFacts, launches_known: bool) -> Iterator[Difference]:
    if first.version is None or second.version is None:
        yield Difference(Part.VERSION, "the version of vLLM is not known of both", Weight.UNKNOWN)
    elif first.version != second.version:
        yield Difference(Part.VERSION, f"vLLM is {first.version}, then {second.version}")
    if first.max_model_len != second.max_model_len:
        said = f"{_told(first.max_model_len)}, then {_told(second.max_model_len)}"
        yield Difference(Part.CONFIGURATION, f"the longest context is {said}")
    if first.cache is not None and second.cache is not None:
        # What was chosen is compared as it was launched; vLLM chooses some of the rest by whether it speculates (0.29:
        # this was seen of prefix_cache_retention_interval).
        follows = launches_known and first.speculates != second.speculates
        part = Part.SPECULATION if follows else Part.CONFIGURATION
        for change in of_variables(first.cache, second.cache):
            if change.name not in _NOISE_LABELS:
                yield Difference(part, _changed(f"the cache's {change.name}", change))
    if first.speculates != second.speculates:
        said = f"{_told(first.speculates)}, then {_told(second.speculates)}"
        yield Difference(Part.SPECULATION, f"whether it speculates is {said}")


def _in_configuration(first: Configuration, second: Configuration) -> Iterator[Difference]:
    if not first.argv or not second.argv:
        which = "either" if not first.argv and not second.argv else "one"
        yield Difference(Part.CONFIGURATION, f"how the server of {which} was launched is not known", Weight.UNKNOWN)
    else:
        for change in of_arguments(first.argv, second.argv):
            if change.name not in _NOISE_FLAGS and change.name != _MODEL_WORD:
                part = Part.SPECULATION if _is_speculation(change.name) else Part.CONFIGURATION
                yield Difference(part, _changed(change.name, change))
        for change in of_variables(dict(first.environment), dict(second.environment)):
            if change.name not in _NOISE_VARIABLES:
                yield Difference(Part.CONFIGURATION, _changed(f"the variable {change.name}", change))
    if first.max_num_seqs != second.max_num_seqs:
        said = f"{_told(first.max_num_seqs)}, then {_told(second.max_num_seqs)}"
        yield Difference(Part.CONFIGURATION, f"the requests that run at once are {said}")


def _in_environment(a: Measured, b: Measured, first: Setting, second: Setting) -> Iterator[Difference]:
    was, becomes = first.configuration.environment_digest, second.configuration.environment_digest
    if a.environment is not None and b.environment is not None:
        for change in changes(a.environment, b.environment):
            # The command line and its variables were compared as they were launched.
            if change.part not in ("argv", "variable"):
                yield Difference(_part_of(change.part), words_of_change(change))
        for sentence in unread_in_either(a.environment, b.environment):
            yield Difference(Part.ENVIRONMENT, f"unread in an environment: {sentence}", Weight.UNPROVEN)
    elif was is None or becomes is None:
        which = "either" if was is becomes else "one"
        words = f"the environment of {which} was not recorded: patches and versions in it are not known"
        yield Difference(Part.ENVIRONMENT, words, Weight.UNPROVEN)
    elif was != becomes:
        words = f"the environment is {_short(was)}, then {_short(becomes)}, and in what they differ is not at hand"
        yield Difference(Part.ENVIRONMENT, words, Weight.UNKNOWN)


def _in_cards(first: Setting, second: Setting) -> Iterator[Difference]:
    cards = [Counter((one.name, one.driver, one.memory_total) for one in setting.cards) for setting in (first, second)]
    if cards[0] != cards[1]:
        yield Difference(Part.CARDS, f"the cards are {_named(first)}, then {_named(second)}")
    elif not cards[0] and "nobody" in (first.watched_by, second.watched_by):
        yield Difference(Part.CARDS, "on which cards was not recorded", Weight.UNPROVEN)


def _part_of(part: str) -> Part:
    match part:
        case "draft":
            return Part.SPECULATION
        case "model":
            return Part.MODEL
        case "card":
            return Part.CARDS
        case _:
            return Part.ENVIRONMENT


def _is_speculation(flag: str) -> bool:
    return flag.startswith(_SPECULATION)


def _named(setting: Setting) -> str:
    cards = Counter(f"{one.name} ({one.driver})" if one.driver else one.name for one in setting.cards)
    return " and ".join(f"{count} × {name}" for name, count in sorted(cards.items())) or "none that is known"


def _changed(name: str, change: Change) -> str:
    was, becomes = ("not set" if value is None else _told(value) for value in (change.was, change.becomes))
    return f"{name} is {was}, then {becomes}"


def _told(value: str | float | None) -> str:
    match value:
        case None:
            return "not known"
        case True:
            return "yes"
        case False:
            return "no"
        case str():
            return value if len(value) <= 200 else f"{value[:199]}…"
        case _:
            return f"{value:,}"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
