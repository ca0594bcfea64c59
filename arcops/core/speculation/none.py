"""No speculation: the target alone."""

from typing import TYPE_CHECKING

from arcops.core.speculation.base import Fault, Json

if TYPE_CHECKING:
    from arcops.core.speculation.section import Speculation


class NoSpeculation:
    """vLLM generates one token a step. The baseline that every other method is compared with."""

    name = "none"
    keys: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    forbids: frozenset[str] = frozenset()

    def faults(self, section: "Speculation") -> list[Fault]:
        return []

    def config(self, section: "Speculation", draft: str | None) -> dict[str, Json] | None:
        return None
