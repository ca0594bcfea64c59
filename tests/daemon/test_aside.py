"""What may hang in the kernel is done beside the loop, and one that never returns holds up nobody."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from arcops.core.errors import ArcopsError
from arcops.daemon import aside as module
from arcops.daemon.aside import AT_ONCE, Aside, for_a_client, on_a_thread
from tests.helpers import eventually


@pytest.mark.asyncio
async def test_a_result_and_an_error_come_back() -> None:
    aside = Aside[int](30.0)
    assert await aside.run(lambda: 7) == 7

    def fails() -> int:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await aside.run(fails)


@pytest.mark.asyncio
async def test_one_that_hangs_is_given_up_and_more_than_a_few_are_not_begun() -> None:
    never = threading.Event()
    aside = Aside[bool](0.05)
    for _ in range(AT_ONCE):
        with pytest.raises(TimeoutError, match="no answer within"):
            await aside.run(never.wait)
    begun: list[bool] = []
    with pytest.raises(TimeoutError, match="have not come back"):
        await aside.run(lambda: begun.append(True) is None)
    assert begun == []
    never.set()
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "aside"])
    assert await Aside[bool](30.0).run(never.is_set)


@pytest.mark.asyncio
async def test_one_that_has_returned_is_not_under_way_though_its_thread_is_still_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_end = threading.Event()

    def lingering(function: Callable[[], object], name: str) -> None:
        def run() -> None:
            function()
            may_end.wait(60.0)

        threading.Thread(target=run, name=name, daemon=True).start()

    monkeypatch.setattr(module, "begin", lingering)
    aside = Aside[int](30.0, at_once=1)
    try:
        assert [await aside.run(lambda: 1), await aside.run(lambda: 2)] == [1, 2]
    finally:
        may_end.set()


@pytest.mark.asyncio
async def test_a_look_that_was_cancelled_is_cancelled() -> None:
    never = threading.Event()
    task = asyncio.create_task(Aside[bool](30.0).run(never.wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    never.set()


@pytest.mark.asyncio
async def test_what_has_no_limit_gives_its_result_and_its_error_too() -> None:
    assert await on_a_thread(max, 3, 7) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        await for_a_client(int, "seven")


@pytest.mark.asyncio
async def test_clients_are_refused_where_too_many_of_their_readings_hang_and_served_again_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AT_A_CLIENTS_WORD", 2)
    never = threading.Event()
    hanging = [asyncio.create_task(for_a_client(never.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ArcopsError, match="2 earlier readings have not come back"):
        await for_a_client(int, "7")
    # A client that leaves does not make room: its reading hangs on.
    hanging[0].cancel()
    with pytest.raises(ArcopsError, match="have not come back"):
        await for_a_client(int, "7")
    never.set()
    await hanging[1]
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "aside"])
    assert await for_a_client(int, "7") == 7


@pytest.mark.asyncio
async def test_a_system_that_gives_no_thread_is_told_and_nothing_is_counted_as_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AT_A_CLIENTS_WORD", 2)

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        for _ in range(3):
            with pytest.raises(ArcopsError, match="no thread can be started"):
                await for_a_client(int, "7")
        with pytest.raises(TimeoutError, match="no thread can be started"):
            await Aside[int](30.0).run(lambda: 7)
    assert await for_a_client(int, "7") == 7


@pytest.mark.processes
def test_a_process_ends_though_a_thread_of_it_never_does() -> None:
    code = (
        "import asyncio, threading\n"
        "from arcops.daemon.aside import Aside\n"
        "async def main():\n"
        "    try: await Aside(0.05).run(threading.Event().wait)\n"
        "    except TimeoutError as error: print(error)\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "no answer within 0 s\n"
    assert ended.stderr == ""
