"""How vLLM may guess ahead: one file per method, one line per method in the list below.

These modules import pydantic for the type checker only, so that `core.launch` stays light.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from arcops.core.speculation.base import Method as Method
from arcops.core.speculation.base import settings_faults
from arcops.core.speculation.dflash import DFLASH
from arcops.core.speculation.draft_model import DRAFT_MODEL
from arcops.core.speculation.eagle3 import EAGLE3
from arcops.core.speculation.mtp import MTP
from arcops.core.speculation.ngram import NGRAM
from arcops.core.speculation.none import NONE
from arcops.core.speculation.words import Fault as Fault
from arcops.core.speculation.words import Json as Json

if TYPE_CHECKING:
    from arcops.core.speculation.section import Speculation

METHODS: Mapping[str, Method] = MappingProxyType(
    {method.name: method for method in (NONE, MTP, DFLASH, DRAFT_MODEL, NGRAM, EAGLE3)}
)


def method_of(section: "Speculation") -> Method:
    """The method that the section names."""
    return METHODS[section.method]


def faults_of(section: "Speculation") -> list[Fault]:
    """Everything that is wrong between the keys of the section, keys relative to it."""
    method = method_of(section)
    return [*settings_faults(section, method), *method.faults(section)]


def config_of(section: "Speculation", draft: str | None) -> dict[str, Json] | None:
    """The value of vLLM's `--speculative-config`; None where nothing is speculated.

    `draft` is the draft model's resolved path, None where the method has none.
    """
    return method_of(section).config(section, draft)
