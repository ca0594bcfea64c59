"""The section `speculation` of a profile."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from arcops.core.speculation.schema import Section, setting
from arcops.core.speculation.words import Json

MethodName: TypeAlias = Literal["none", "mtp", "dflash", "draft_model", "ngram", "eagle3"]

Range: TypeAlias = tuple[
    Annotated[int, Field(ge=1)],
    Annotated[int, Field(ge=1)],
    Annotated[int, Field(ge=0)],
]
"""First and last number of running sequences (inclusive), and the draft depth for them."""

Rate: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class Speculation(Section):
    """How vLLM guesses ahead. Whatever is not set is left to vLLM."""

    method: MethodName = setting("How tokens are guessed; none: not at all.", default="none", example="dflash")
    model: str | None = setting("The draft's checkpoint: found like model.path.", example="qwen-dflash2", min_length=1)
    num_tokens: int | None = setting("How many tokens are guessed per step.", example=3, unit="tokens", ge=1)
    schedule: tuple[Range, ...] | None = setting(
        "The draft depth by the number of running sequences: [first, last, depth], from 1 and without gaps; above the "
        "last range its depth goes on.",
        example=[[1, 8, 3], [9, 16, 1], [17, 64, 0]],
        unit="sequences, sequences, tokens",
        min_length=1,
    )
    kv_cache_dtype: str | None = setting(
        "Type of the draft's KV cache; the target's own unless set.", example="fp8", min_length=1
    )
    attention_backend: str | None = setting("The draft's attention backend.", example="TRITON_ATTN", min_length=1)
    quantization: str | None = setting("How the draft's weights are quantized.", example="fp8", min_length=1)
    max_model_len: int | None = setting("The longest context that the draft sees.", example=32768, unit="tokens", ge=1)
    draft_tensor_parallel_size: int | None = setting(
        "Over how many cards the draft runs.", example=1, unit="cards", ge=1
    )
    enforce_eager: bool | None = setting("Run the draft without graphs, whatever the target does.", example=True)
    parallel_drafting: bool | None = setting(
        "Guess all tokens at once; the draft must be trained for it.", example=True
    )
    prompt_lookup_min: int | None = setting("The shortest n-gram that is looked up.", example=2, unit="tokens", ge=1)
    prompt_lookup_max: int | None = setting("The longest n-gram that is looked up.", example=4, unit="tokens", ge=1)
    draft_sample_method: Literal["greedy", "probabilistic"] | None = setting(
        "How the draft picks its tokens.", example="greedy"
    )
    rejection_sample_method: Literal["standard", "synthetic", "block"] | None = setting(
        "How guesses are verified; synthetic accepts at a set rate, to measure with.", example="standard"
    )
    synthetic_acceptance_length: float | None = setting(
        "The mean accepted length that synthetic verification aims at.", example=2.5, unit="tokens a step", ge=1
    )
    synthetic_acceptance_rates: tuple[Rate, ...] | None = setting(
        "For each position, the share of steps that accept up to it; for synthetic verification.",
        example=[0.9, 0.7, 0.4],
        min_length=1,
    )

    def settings(self) -> dict[str, Json]:
        """Every setting but the method that has a value."""
        return self.model_dump(exclude={"method"}, exclude_none=True)
