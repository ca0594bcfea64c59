"""Orders that a measurement gives the daemon: what is on its way cannot be called back, and what came of it is said."""

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from arcops import wire
from arcops.evidence import fresh, measure
from tests.daemon.waiting import until

_SOCKET: Final = Path("/nowhere")


class Daemon:
    """Takes as long for an order as a test wants."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.begun = threading.Event()
        self.ready = threading.Event()
        self.fresh_caches = True

    def __call__(self, _socket: Path) -> "Daemon":
        return self

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None: ...

    def switch(self, request: wire.SwitchRequest) -> wire.Accepted:
        self.begun.set()
        self.ready.wait(30)
        self.given.append(request.profile)
        return wire.Accepted(order_id=None)

    def restart(self, request: wire.RestartRequest) -> wire.Accepted:
        assert request.fresh_caches
        return wire.Accepted(order_id=None)

    def status(self) -> object:
        return SimpleNamespace(backend=SimpleNamespace(fresh_caches=self.fresh_caches), phase="serving")


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    made = Daemon()
    monkeypatch.setattr(fresh, "Client", made)
    return made


@pytest.mark.asyncio
async def test_an_order_that_is_given_up_is_with_the_daemon_before_the_next_one_is(daemon: Daemon) -> None:
    task = asyncio.create_task(fresh.change(_SOCKET, "oracle"))
    await until(daemon.begun.is_set)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done(), "whoever gives the next order would overtake this one"
    daemon.ready.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert daemon.given == ["oracle"]


@pytest.mark.asyncio
@pytest.mark.parametrize("empty", [True, False])
async def test_whether_the_caches_of_a_fresh_server_were_empty_is_the_daemons_word(daemon: Daemon, empty: bool) -> None:
    daemon.fresh_caches = empty
    assert await fresh.renew(_SOCKET) is empty


@pytest.mark.asyncio
async def test_who_does_not_wait_for_the_way_back_is_told_how_to_get_there(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    async def forever(_socket: Path, _profile: str, *, replace: bool = False) -> None:
        assert replace
        await asyncio.Event().wait()

    monkeypatch.setattr(fresh, "change", forever)

    def tell(words: str) -> None:
        said.append(words)

    task = asyncio.ensure_future(measure.switch_back(_SOCKET, "mine", tell, replace=True))
    await until(lambda: bool(said))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "`arcops switch mine`" in said[-1]
