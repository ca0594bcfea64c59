"""Keeps Python's garbage collector from standing between a key and its effect.

A full collection of a screen's objects takes 50 to 100 ms, and by itself comes when it likes: every two seconds while a
log grows, as likely as not while somebody waits for a key. What lives as long as the screen is taken out of its sight
(gc.freeze), and what is left is collected while nobody presses anything.
"""

import gc
import sys
import time
from collections.abc import Callable
from typing import Final

EVERY: Final = 1.0
"""Seconds between two looks at whether something is to be done."""
QUIET: Final = 1.5
"""Seconds without a key after which nobody waits: a person who presses one after another is faster."""
SELDOM: Final = 20.0
"""Seconds from one collection to the next while nobody presses a key."""
AT_LAST: Final = 120.0
"""Seconds after which it is done even so: keys that never end must not fill the memory."""
NEVER: Final = 1_000_000
"""Threshold of the old generation. The young ones keep theirs: they take a millisecond or three."""
SWITCH: Final = 0.001
"""Seconds that a thread keeps the interpreter from another: the one that reads keys waits for the one that draws."""


class Tidying:
    """When to collect. Of a process that is a screen and nothing else."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pressed = clock()
        self._collected = clock()
        self._grown = True

    def begin(self) -> None:
        """From now on the old are left alone until `look`."""
        gc.set_threshold(*gc.get_threshold()[:2], NEVER)
        sys.setswitchinterval(SWITCH)

    def pressed(self) -> None:
        """Somebody waits for what a key does."""
        self._pressed = self._clock()

    def grown(self) -> None:
        """Something was made that lives as long as the screen."""
        self._grown = True

    def look(self) -> bool:
        """Collect, if this is the moment; whether it was."""
        now = self._clock()
        age = now - self._collected
        if now - self._pressed < QUIET and age < AT_LAST:
            return False
        if not self._grown and age < SELDOM:
            return False
        gc.collect()
        if self._grown:
            gc.freeze()
        self._collected, self._grown = self._clock(), False
        return True
