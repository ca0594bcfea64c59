"""The operator's screen."""

import sys
from types import ModuleType


def _without_command_line() -> ModuleType:
    """What httpx takes for its own command line."""
    empty = ModuleType("httpx._main")
    empty.main = lambda: None  # pyright: ignore[reportAttributeAccessIssue] - httpx asks for this one name
    return empty


# httpx 0.28 loads its command line where click, pygments and rich are installed, as they are beside a screen: 3 MB and
# 50 ms that nobody here needs.
sys.modules.setdefault("httpx._main", _without_command_line())
