"""What may hang in the kernel is done beside the loop, and one that never returns holds up nobody."""

import asyncio
import subprocess
import sys
import threading

import pytest

from arcops.daemon.aside import AT_ONCE, Aside
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
async def test_a_look_that_was_cancelled_is_cancelled() -> None:
    never = threading.Event()
    task = asyncio.create_task(Aside[bool](30.0).run(never.wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    never.set()


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
