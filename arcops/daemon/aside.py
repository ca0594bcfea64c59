"""What may hang in the kernel is done in a thread of its own: the loop hears of it in time, and the daemon can end."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

AT_ONCE = 4
"""Threads that may be under way; more than that only pile up behind one that hangs."""


class Aside(Generic[T]):
    """Runs functions beside the loop. Unlike asyncio's own threads, one that never returns holds up nobody."""

    def __init__(self, within: float) -> None:
        self._within = within
        self._threads: list[threading.Thread] = []

    async def run(self, function: Callable[[], T]) -> T:
        """The function's result. Raises what it raises, and TimeoutError if it has not returned `within` seconds.

        The thread of one that was given up goes on until it returns; its result is nobody's.
        """
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= AT_ONCE:
            raise TimeoutError(f"{AT_ONCE} earlier attempts have not come back")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                result = function()
            except Exception as error:  # noqa: BLE001 - it is the caller's, who waits in another thread
                tell(future.set_exception, error)
            else:
                tell(future.set_result, result)

        def tell(setter: Callable[..., None], value: object) -> None:
            # The loop has ended meanwhile: nobody is left to hear it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: None if future.done() else setter(value))

        thread = threading.Thread(target=run, daemon=True, name="aside")
        self._threads.append(thread)
        thread.start()
        try:
            async with asyncio.timeout(self._within):
                return await future
        except TimeoutError:
            if future.done() and not future.cancelled():
                raise
            raise TimeoutError(f"no answer within {self._within:.0f} s") from None
