"""Profiles and site settings: the only reader of YAML.

The names below are loaded when they are first asked for, because `arcops.config.paths` is needed by commands that must
start fast and may import neither pydantic nor a YAML parser.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arcops.config.library import Config as Config
    from arcops.config.paths import Paths as Paths
    from arcops.config.problem import Problem as Problem

_HOMES = {
    "Config": "arcops.config.library",
    "Paths": "arcops.config.paths",
    "Problem": "arcops.config.problem",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
