"""What may hang in the kernel is done in a thread of its own: the loop hears of it in time, and the daemon can end."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from arcops.core.errors import ArcopsError

T = TypeVar("T")
P = ParamSpec("P")

AT_ONCE = 4
"""Threads that may be under way; more than that only pile up behind one that hangs."""
AT_A_CLIENTS_WORD = 64
"""The same for what clients ask for, all together."""
READ_WITHIN = 60.0
"""Seconds for a file or the database to be read; it takes milliseconds, and for ever where a disk hangs."""

_counting = threading.Lock()
_asked = 0


async def on_a_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The function's result, however long it takes: for what has a limit of its own, or a caller who may wait or go.

    Like asyncio.to_thread, but the end of the daemon does not wait for it.
    """
    return await _begun(lambda: function(*args, **kwargs))[1]


async def for_a_client(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `on_a_thread`, for what a client asks for. Raises ArcopsError where too many readings hang already."""
    global _asked
    if _asked >= AT_A_CLIENTS_WORD:
        what = f"{AT_A_CLIENTS_WORD} earlier readings have not come back"
        raise ArcopsError(what, hint="look at the disks: one of them seems to hang")

    def read() -> T:
        global _asked
        try:
            return function(*args, **kwargs)
        finally:
            with _counting:
                _asked -= 1

    with _counting:
        _asked += 1
    try:
        reading = _begun(read)[1]
    except TimeoutError as error:
        # What was counted was not begun.
        with _counting:
            _asked -= 1
        raise ArcopsError(f"nothing can be read now: {error}", hint="who has so many threads or processes?") from error
    return await reading


class Aside(Generic[T]):
    """Runs functions beside the loop. Unlike asyncio's own threads, one that never returns holds up nobody."""

    def __init__(self, within: float, at_once: int = AT_ONCE) -> None:
        self._within = within
        self._at_once = at_once
        self._attempts: list[threading.Event] = []
        """Of each attempt that may be under way: its function has returned. Its thread ends a moment later."""

    async def run(self, function: Callable[[], T]) -> T:
        """The function's result. Raises what it raises, and TimeoutError if it has not returned `within` seconds.

        The thread of one that was given up goes on until it returns; its result is nobody's.
        """
        self._attempts = [returned for returned in self._attempts if not returned.is_set()]
        if len(self._attempts) >= self._at_once:
            raise TimeoutError(f"{_counted(self._at_once)} not come back")
        returned, future = _begun(function)
        self._attempts.append(returned)
        try:
            async with asyncio.timeout(self._within):
                return await future
        except TimeoutError:
            if future.done() and not future.cancelled():
                raise
            raise TimeoutError(f"no answer within {self._within:.0f} s") from None


def _counted(attempts: int) -> str:
    return "an earlier attempt has" if attempts == 1 else f"{attempts} earlier attempts have"


def _begun(function: Callable[[], T]) -> tuple[threading.Event, "asyncio.Future[T]"]:
    """Has a thread do it: what is set when it has returned, and what will have its result.

    Raises TimeoutError where the system gives no thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    returned = threading.Event()

    def run() -> None:
        try:
            outcome = partial(future.set_result, function())
        except Exception as error:  # noqa: BLE001 - it is the caller's, who waits in another thread
            outcome = partial(future.set_exception, error)
        finally:
            # Before anybody hears of it: whoever does may begin the next one at once.
            returned.set()
        # The loop may have ended meanwhile: nobody is left to hear it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if future.done() else outcome())

    begin(run, "aside")
    return returned, future


def begin(function: Callable[[], object], name: str) -> threading.Thread:
    """A thread that does `function`, and that the end of the daemon does not wait for. Raises TimeoutError.

    The system may give none: a limit on tasks is shared with whatever else runs in the unit, or as the user.
    """
    thread = threading.Thread(target=function, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise TimeoutError(f"no thread can be started ({error})") from error
    return thread
