"""The profiles to choose from. The configuration is loaded when it is asked for: it costs a third of a second."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arcops.core.errors import ArcopsError

if TYPE_CHECKING:
    from arcops.config import Config


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """A profile by its name."""

    name: str
    description: str
    problem: str = ""
    """Why it cannot be used, in words; empty if it can."""


def configured(instance: str) -> Sequence[ProfileChoice]:
    """All profiles, by name, as they stand on disk now. Raises ArcopsError if the site settings cannot be read."""
    from arcops.config import Config

    config = Config.load(instance=instance)
    return [_choice(config, name) for name in config.names()]


def _choice(config: "Config", name: str) -> ProfileChoice:
    try:
        return ProfileChoice(name, config.profile(name).description)
    except ArcopsError as error:
        return ProfileChoice(name, "", error.message)
