"""Durations on the command line: `60s`, `1.5m`, `2h`, or plain seconds."""

import math
import re

from arcops.core.errors import ArcopsError, ExitCode

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """`text` in seconds. Raises ArcopsError (usage) where it is no duration."""
    match = _DURATION.fullmatch(text.strip())
    value = float(match[1]) * _SECONDS[match[2]] if match else math.inf
    if not math.isfinite(value):
        raise ArcopsError(f"{text!r} is no duration", hint="for example 60s, 2m or 1h", exit_code=ExitCode.USAGE)
    return value


def drain_of(drain: str | None, now: bool) -> float | None:
    """What --drain and --now say together: seconds, or None for the profile's own limit."""
    if drain is not None and now:
        raise ArcopsError("--drain and --now contradict each other", hint="use one of them", exit_code=ExitCode.USAGE)
    if now:
        return 0.0
    return None if drain is None else seconds(drain)
