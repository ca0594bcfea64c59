"""No speculation: the target alone, one token a step. The baseline that every other method is compared with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arcops.core.speculation.base import Method
from arcops.core.speculation.words import Fault, Json

if TYPE_CHECKING:
    from arcops.core.speculation.section import Speculation


@dataclass(frozen=True, slots=True)
class _NoSpeculation(Method):
    def faults(self, section: "Speculation") -> list[Fault]:
        return []

    def config(self, section: "Speculation", draft: str | None) -> dict[str, Json] | None:
        return None


NONE = _NoSpeculation(name="none", keys=frozenset(), required=frozenset(), forbids=frozenset())
