"""A profile: which model, on what, how. Data only; config/ reads it, core/launch.py makes a launch of it."""

from typing import Annotated, cast

from pydantic import Field

from arcops.core.profile.faults import faults as faults
from arcops.core.profile.faults import is_loopback as is_loopback
from arcops.core.profile.sections import (
    Cache,
    ChecksSection,
    Compilation,
    Device,
    LimitsSection,
    Model,
    Parallel,
    Parsers,
    QualificationSection,
    RestartSection,
    Runtime,
    Scheduling,
    Server,
)
from arcops.core.speculation.schema import Section, setting
from arcops.core.speculation.section import Speculation


class Profile(Section):
    """One way to run one model.

    What is wrong with a single key is refused here; what is wrong between keys is what `faults` lists.
    """

    description: str = setting("What this profile is for, in a sentence.", default="", example="The 35B, alone.")
    runtime: Runtime = Field(default=Runtime(), description="Which vLLM.")
    device: Device = Field(description="On what.")
    model: Model = Field(description="Which checkpoint.")
    server: Server = Field(default=Server(), description="Where it listens.")
    scheduling: Scheduling = Field(default=Scheduling(), description="How requests share the model.")
    cache: Cache = Field(default=Cache(), description="KV cache and recurrent state.")
    compilation: Compilation = Field(default=Compilation(), description="Graphs and compilation.")
    parallel: Parallel = Field(default=Parallel(), description="How the model is spread over cards.")
    parsers: Parsers = Field(default=Parsers(), description="Reasoning and tool calls.")
    speculation: Speculation = Field(default=Speculation(), description="How vLLM guesses ahead.")
    limits: LimitsSection = Field(default=LimitsSection(), description="How long things may take.")
    restart: RestartSection = Field(default=RestartSection(), description="When a failed backend is started again.")
    on_failure: str | None = setting(
        "A profile that takes its place, once, when it has failed for good.", default=None, example="target-only"
    )
    checks: ChecksSection = Field(default=ChecksSection(), description="What it must show before it serves.")
    qualification: QualificationSection = Field(
        default=QualificationSection(), description="What `arcops qualify` asks of it."
    )
    extra_args: tuple[Annotated[str, Field(min_length=1)], ...] = setting(
        "Further arguments of vllm serve; none that a key above stands for.",
        default=(),
        example=["--seed", "1"],
    )

    @property
    def card_count(self) -> int:
        """How many cards it runs on: 1 unless it says otherwise, none on the CPU."""
        match self.device.cards:
            case None:
                return 0 if self.device.kind == "cpu" else 1
            case int() as count:
                return count
            case addresses:
                return len(addresses)

    @property
    def tensor_parallel_size(self) -> int:
        """Over how many cards each layer is split: all of them unless it says otherwise."""
        return self.parallel.tensor_parallel_size or max(1, self.card_count)

    @property
    def served_name(self) -> str:
        """What /v1/models calls the model."""
        return self.model.served_name or self.model.path.rstrip("/").rpartition("/")[2]


def json_schema() -> dict[str, object]:
    """JSON Schema (draft 2020-12) of a profile file: the model, and `extends`, which is gone once files are merged.

    A file that extends another need not repeat what the other says, so nothing is required there.
    """
    schema: dict[str, object] = Profile.model_json_schema()
    properties = cast("dict[str, object]", schema["properties"])
    extends = {
        "type": "string",
        "description": "Another profile; what is said here goes over it, and null removes a key.",
        "examples": ["target-only"],
    }
    schema["properties"] = {"extends": extends, **properties}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "arcops profile"
    required = schema.pop("required", None)
    schema["anyOf"] = [{"required": ["extends"]}, {"required": required}]
    return schema
