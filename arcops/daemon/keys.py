"""The API key of a backend: read when it is needed, kept nowhere, and never in a command line."""

import os

from arcops.config.locate import NotHereError, find_secret
from arcops.core.launch import Launch


def spawn_key(launch: Launch) -> str | None:
    """The API key for a backend that is about to be spawned; None only where the launch wants none.

    Raises NotHereError where it wants one and the file yields none, or anybody may read it: better no backend than one
    that is open to everybody.
    """
    if launch.api_key_file is None:
        return None
    find_secret(launch.api_key_file, os.environ)
    key = read_key(launch)
    if key is None:
        raise NotHereError(f"{launch.api_key_file} yields no key")
    return key


def read_key(launch: Launch) -> str | None:
    """The API key: the first line of the profile's file. None where there is none, or it cannot be read (any more)."""
    if launch.api_key_file is None:
        return None
    try:
        with open(launch.api_key_file, encoding="utf-8") as file:
            return file.readline().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
