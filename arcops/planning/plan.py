"""From a launch to its plan."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from arcops.core.budget.demand import Checkpoint, Remembered, demand_of, layers_for
from arcops.core.budget.layers import Layer
from arcops.core.budget.model import ShapeError, model_of
from arcops.core.budget.plan import Demand, Plan, Room, plan_of
from arcops.core.budget.wants import Wants, wants_of
from arcops.core.budget.weights import weights_of
from arcops.core.launch import Launch
from arcops.machine.checkpoint import CheckpointError, read_config, shards_of

GIB: Final = 1024**3
CPU_CACHE: Final = "VLLM_CPU_KVCACHE_SPACE"
"""GiB of the cache on the CPU (envs.py of vLLM 0.29)."""
NOTHING = Remembered()
SHOWS = "`arcops profile show` prints what vLLM is told"


class PlanError(Exception):
    """Why there is no plan: `words` in one sentence, for a person, and what to do."""

    def __init__(self, words: str, hint: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.hint = hint


def plan_for(
    launch: Launch, room: Room, remembered: Remembered = NOTHING, change: Callable[[Wants], Wants] | None = None
) -> Plan:
    """What a launch takes, held against `room`. Raises PlanError. Reads headers only: some ten milliseconds a shard."""
    return plan_of(demand_for(launch, room, remembered, change), room)


def demand_for(
    launch: Launch, room: Room, remembered: Remembered = NOTHING, change: Callable[[Wants], Wants] | None = None
) -> Demand:
    """What a launch takes; with `change` what it would take with other settings. Raises PlanError."""
    subject = subject_of(launch, change)
    return subject.demand(launch, room, remembered)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a plan is about: the settings, and the checkpoints that were read for them."""

    wants: Wants
    target: Checkpoint
    draft: Checkpoint | None

    def demand(self, launch: Launch, room: Room, remembered: Remembered = NOTHING) -> Demand:
        """What it takes on each card. Raises PlanError."""
        try:
            return demand_of(self.wants, device_of(launch), self.target, self.draft, remembered, room.total)
        except ShapeError as error:
            raise PlanError(f"{launch.profile}: {error.words}", SHOWS) from error

    def layers(self) -> tuple[Layer, ...]:
        """What each layer keeps, for arithmetic beside the plan. Raises PlanError."""
        try:
            return layers_for(self.wants, self.target, self.draft)
        except ShapeError as error:
            raise PlanError(error.words, SHOWS) from error


def subject_of(launch: Launch, change: Callable[[Wants], Wants] | None = None) -> Subject:
    """Read what a launch names. Raises PlanError."""
    try:
        wants = wants_of(launch.argv)
    except ShapeError as error:
        raise PlanError(f"{launch.profile}: {error.words}", SHOWS) from error
    wants = replace(wants, pool=_pool_of_cpu(launch) if wants.pool is None else wants.pool)
    wants = wants if change is None else change(wants)
    drafting = wants.drafting
    target = _checkpoint(wants.model, wants, mtp=drafting is not None and drafting.method == "mtp")
    draft = None if drafting is None or drafting.draft is None else _checkpoint(drafting.draft, wants)
    return Subject(wants, target, draft)


def device_of(launch: Launch) -> str:
    """`xpu`, `cuda` or `cpu`, by the variables that let vLLM see its cards."""
    names = {name for name, _ in launch.environment}
    if not launch.cards:
        return "cpu"
    return "cuda" if "CUDA_VISIBLE_DEVICES" in names else "xpu"


def _pool_of_cpu(launch: Launch) -> int | None:
    """Bytes of the cache on the CPU, where vLLM is told by a variable; None where it finds a size by itself."""
    said = dict(launch.environment).get(CPU_CACHE, "")
    return int(said) * GIB or None if not launch.cards and said.isdecimal() and len(said) < 7 else None


def _checkpoint(folder: str, wants: Wants, *, mtp: bool = False) -> Checkpoint:
    try:
        model = model_of(read_config(folder))
        tensors = (tensor for shard in shards_of(folder) for tensor in shard.tensors)
        return Checkpoint(model, weights_of(tensors, ranks=wants.ranks, text_only=wants.text_only, mtp=mtp))
    except CheckpointError as error:
        raise PlanError(f"{folder}: {error.words}", "download the checkpoint again") from error
    except ShapeError as error:
        raise PlanError(f"{folder}: {error.words}") from error
