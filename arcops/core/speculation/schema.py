"""How a section of a profile is described: frozen, strict, every key with words, a unit and an example."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A mapping of a profile. Unknown keys are refused; None is "not set": vLLM's own default holds."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=())


def setting(
    description: str,
    *,
    default: Any = None,
    example: Any = None,
    unit: str | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    pattern: str | None = None,
    min_length: int | None = None,
) -> Any:
    """A pydantic field: its description, its unit (in the schema as `unit`), one example and its bounds."""
    return Field(
        default=default,
        description=f"{description} ({unit})" if unit else description,
        examples=None if example is None else [example],
        json_schema_extra={"unit": unit} if unit else None,
        ge=ge,
        gt=gt,
        le=le,
        pattern=pattern,
        min_length=min_length,
    )
