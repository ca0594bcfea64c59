"""What is wrong between the keys of a profile, each of them being right by itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from arcops.core import speculation
from arcops.core.profile.flags import objection, variable_objection
from arcops.core.speculation import Fault

if TYPE_CHECKING:
    from arcops.core.profile import Profile

_LOOPBACK_NAMES = frozenset({"localhost", "::1", "ip6-localhost"})


def faults(profile: "Profile") -> list[Fault]:
    """Everything that is wrong, each with its dotted key."""
    return [
        *_environment(profile),
        *_device(profile),
        *_server(profile),
        *_cache(profile),
        *_compilation(profile),
        *_speculation(profile),
        *_limits(profile),
        *_checks(profile),
        *_qualification(profile),
        *_extra_args(profile),
    ]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`: 127.0.0.0/8, ::1 or the name localhost."""
    parts = host.split(".")
    dotted = len(parts) == 4 and all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts)
    return host.lower() in _LOOPBACK_NAMES or (dotted and parts[0] == "127")


def _environment(profile: "Profile") -> Iterator[Fault]:
    for name in profile.runtime.env:
        reason = variable_objection(name)
        if reason is not None:
            yield Fault(f"runtime.env.{name}", reason)


def _checks(profile: "Profile") -> Iterator[Fault]:
    known = profile.checks.known_answer
    if known is not None and (known.equals is None) == (known.contains is None):
        yield Fault("checks.known_answer", "say what the answer is: exactly one of equals and contains")


def _qualification(profile: "Profile") -> Iterator[Fault]:
    asked, longest = profile.qualification, profile.scheduling.max_model_len
    if asked.long_tokens is not None and longest is not None and asked.long_tokens >= longest:
        yield Fault(
            "qualification.long_tokens",
            f"{asked.long_tokens} leaves no room for an answer within scheduling.max_model_len ({longest})",
        )
    if "tools" in asked.model_fields_set and asked.tools and profile.parsers.tool_call is None:
        yield Fault("qualification.tools", "needs parsers.tool_call: without it the server makes no calls of text")


def _device(profile: "Profile") -> Iterator[Fault]:
    device, split = profile.device, profile.parallel.tensor_parallel_size
    count = profile.card_count
    if device.kind == "cpu":
        if count:
            yield Fault("device.cards", "the CPU has no cards; remove it or set it to 0")
        if device.allow_holders:
            yield Fault("device.allow_holders", "means nothing on the CPU")
        if "allow_memory" in device.model_fields_set:
            yield Fault("device.allow_memory", "means nothing on the CPU")
        return
    if count == 0:
        yield Fault("device.cards", f"{device.kind} needs at least one card")
    elif split is not None and split > count:
        yield Fault("parallel.tensor_parallel_size", f"{split} is over the number of cards ({count})")


def _server(profile: "Profile") -> Iterator[Fault]:
    server = profile.server
    if is_loopback(server.host):
        if server.expose:
            yield Fault("server.expose", f"{server.host} is reachable from this machine only; set server.host as well")
        return
    missing = [] if server.expose else ["server.expose: true"]
    missing += [] if server.api_key_file is not None else ["server.api_key_file"]
    if missing:
        needs = " and ".join(missing)
        yield Fault("server.host", f"{server.host} is reachable from other machines; that needs {needs}")


def _cache(profile: "Profile") -> Iterator[Fault]:
    cache, scheduling = profile.cache, profile.scheduling
    if cache.kv_cache_memory is not None and cache.gpu_memory_utilization is not None:
        yield Fault("cache.gpu_memory_utilization", "has no effect beside cache.kv_cache_memory; set one of the two")
    if cache.prefix_caching is False and cache.mamba_cache_mode in ("align", "all"):
        yield Fault("cache.mamba_cache_mode", f"{cache.mamba_cache_mode} needs cache.prefix_caching")
    batched, sequences = scheduling.max_num_batched_tokens, scheduling.max_num_seqs
    if batched is not None and sequences is not None and batched < sequences:
        yield Fault("scheduling.max_num_batched_tokens", f"{batched} is under scheduling.max_num_seqs ({sequences})")


def _compilation(profile: "Profile") -> Iterator[Fault]:
    compilation = profile.compilation
    graphs = {"cudagraph_mode": compilation.cudagraph_mode, "capture_sizes": compilation.capture_sizes}
    for key, value in graphs.items():
        if compilation.enforce_eager and value not in (None, "NONE"):
            yield Fault(f"compilation.{key}", "has no effect with compilation.enforce_eager")
    sizes = compilation.capture_sizes or ()
    if list(sizes) != sorted(set(sizes)):
        yield Fault("compilation.capture_sizes", "must rise from one size to the next")


def _speculation(profile: "Profile") -> Iterator[Fault]:
    for fault in speculation.faults_of(profile.speculation):
        yield Fault(f"speculation.{fault.key}", fault.message)
    draft_split = profile.speculation.draft_tensor_parallel_size
    if draft_split is not None and draft_split not in (1, profile.tensor_parallel_size):
        yield Fault(
            "speculation.draft_tensor_parallel_size",
            f"{draft_split} is neither 1 nor the target's ({profile.tensor_parallel_size})",
        )


def _limits(profile: "Profile") -> Iterator[Fault]:
    limits, restart = profile.limits, profile.restart
    if limits.shutdown_timeout is not None:
        if limits.shutdown_timeout > limits.drain:
            yield Fault(
                "limits.shutdown_timeout", f"{limits.shutdown_timeout:g} s is over limits.drain ({limits.drain:g} s)"
            )
        if not limits.shutdown_timeout.is_integer():
            yield Fault("limits.shutdown_timeout", f"{limits.shutdown_timeout:g} s: vLLM takes whole seconds")
    for key in ("start_stall", "stop_grace", "clear", "stall_after", "probe"):
        if getattr(limits, key) == 0:
            yield Fault(f"limits.{key}", "must be over 0 s")
    if restart.first_delay > restart.longest_delay:
        yield Fault(
            "restart.first_delay",
            f"{restart.first_delay:g} s is over restart.longest_delay ({restart.longest_delay:g} s)",
        )


def _extra_args(profile: "Profile") -> Iterator[Fault]:
    for index, argument in enumerate(profile.extra_args):
        key = f"extra_args.{index}"
        if index == 0 and not argument.startswith("-"):
            yield Fault(key, f"{argument!r} is not a flag; the first extra argument must be one")
        reason = objection(argument)
        if reason is not None:
            yield Fault(key, f"{argument}: {reason}")
