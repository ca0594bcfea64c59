"""Durations on the command line: `60s`, `1.5m`, `2h`, or plain seconds."""

import math
import re

from arcops.core.errors import ArcopsError, ExitCode

LONGEST = 86_400.0
"""Seconds, for every duration on the command line: the daemon takes no longer one."""

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST_SHOWN = 40
"""Characters."""


def seconds(text: str, *, least: float = 0.0) -> float:
    """`text` in seconds, from `least` to LONGEST. Raises ArcopsError (usage) where it is no such duration."""
    match = _DURATION.fullmatch(text.strip())
    value = float(match[1]) * _SECONDS[match[2]] if match else math.nan
    if math.isnan(value):
        raise ArcopsError(f"{shown(text)} is no duration", hint="for example 60s, 2m or 1h", exit_code=ExitCode.USAGE)
    if not least <= value <= LONGEST:
        wrong = "short" if value < least else "long"
        raise ArcopsError(
            f"{shown(text)} is too {wrong}: {least:g} s to {LONGEST / 3600:g} h are taken", exit_code=ExitCode.USAGE
        )
    return value


def shown(text: str) -> str:
    """What somebody typed, in quotes and not longer than a message can bear."""
    return repr(text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…")


def drain_of(drain: str | None, now: bool) -> float | None:
    """What --drain and --now say together: seconds, or None for the profile's own limit."""
    if drain is not None and now:
        raise ArcopsError("--drain and --now contradict each other", hint="use one of them", exit_code=ExitCode.USAGE)
    if now:
        return 0.0
    return None if drain is None else seconds(drain)
