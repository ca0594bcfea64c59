"""The profiles to choose from. The configuration is loaded when it is asked for: it costs a third of a second."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arcops import words
from arcops.core.errors import ArcopsError

if TYPE_CHECKING:
    from arcops.config import Config


@dataclass(frozen=True, slots=True)
class Planned:
    """What a profile would start, secrets hidden."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    setup: str | None
    locks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """A profile by its name."""

    name: str
    description: str
    problem: str = ""
    """Why it cannot be used, in words; empty if it can."""
    lacking: bool = False
    """The file itself is right: the problem is what this machine lacks."""
    planned: Planned | None = None
    """None where it cannot be used."""


def configured(instance: str) -> Sequence[ProfileChoice]:
    """All profiles, by name, as they stand on disk now. Raises ArcopsError if the site settings cannot be read."""
    from arcops.config import Config

    config = Config.load(instance=instance)
    return [_choice(config, name) for name in config.names()]


def _choice(config: "Config", name: str) -> ProfileChoice:
    try:
        problems = config.check(name)
        if problems:
            lacking = all(problem.here for problem in problems)
            description = config.profile(name).description if lacking else ""
            text = "; ".join(words.clean(str(problem)) for problem in problems)
            return ProfileChoice(name, description, text, lacking)
        return ProfileChoice(name, config.profile(name).description, planned=_planned(config, name))
    except ArcopsError as error:
        return ProfileChoice(name, "", error.message)


def _planned(config: "Config", name: str) -> Planned:
    from arcops.core.launch import redact

    launch = redact(config.launch(name))
    return Planned(launch.argv, launch.environment, launch.setup, launch.locks)
