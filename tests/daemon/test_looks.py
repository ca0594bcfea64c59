"""A look says what it was at: one at another launch's port proves nothing (law 3)."""

import asyncio
import os
import socket
import threading
from dataclasses import replace

import pytest

from arcops.core.launch import Launch
from arcops.core.quantity import Known, Unknown
from arcops.core.world import Card
from arcops.daemon import looks
from arcops.daemon.aside import AT_ONCE
from arcops.daemon.card_memory import CardMemory
from arcops.daemon.clock import Clock
from arcops.daemon.looks import Looks, look_at_port
from arcops.machine.gpu import Asker, CardIdentity
from tests.core.simulated import launch
from tests.helpers import free_port


def cpu(port: int) -> Launch:
    return replace(launch(), port=port, cards=(), locks=())


def nobody() -> frozenset[int]:
    return frozenset()


def me() -> frozenset[int]:
    return frozenset({os.getpid()})


def gone(pid: int) -> None:
    """Nobody lives."""


class Woken(asyncio.Event):
    async def soon(self) -> None:
        async with asyncio.timeout(5.0):
            await self.wait()
        self.clear()


@pytest.mark.asyncio
async def test_what_was_seen_of_one_port_says_nothing_about_another() -> None:
    woken = Woken()
    eyes = Looks(Clock(), woken.set)
    one, other = cpu(free_port()), cpu(free_port())
    eyes.look(one, nobody)
    await woken.soon()
    port, card = eyes.seen(one)
    assert isinstance(port, Known)
    assert isinstance(card, Known)
    assert eyes.seen(replace(one, profile="beta", argv=("other",))) == (port, card), "the same port and cards"
    for stranger in (other, replace(one, host="0.0.0.0"), replace(one, cards=("0000:03:00.0",)), None):
        assert [(type(seen), seen.at) for seen in eyes.seen(stranger)] == [(Unknown, float("-inf"))] * 2


@pytest.mark.asyncio
async def test_a_look_that_waits_gives_way_to_one_at_something_else() -> None:
    woken = Woken()
    eyes = Looks(Clock(), woken.set)
    one, other = cpu(free_port()), cpu(free_port())
    eyes.look(one, nobody, pause=60.0)
    eyes.look(other, nobody)
    await woken.soon()
    assert isinstance(eyes.seen(other)[0], Known)
    assert isinstance(eyes.seen(one)[0], Unknown)


@pytest.mark.asyncio
async def test_a_look_that_fails_is_an_absence_and_wakes_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(looks, "look_at_cards", broken)
    woken = Woken()
    eyes = Looks(Clock(), woken.set)
    one = cpu(free_port())
    eyes.look(one, nobody)
    await woken.soon()
    port, card = eyes.seen(one)
    assert isinstance(port, Known)
    assert isinstance(card, Unknown)
    assert card.reason == "the card cannot be looked at: RuntimeError nobody thought of this"


def test_a_card_that_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(looks, "find_cards", broken)
    seen = looks.look_at_cards(launch(), nobody, 1.0, Asker(), CardMemory())
    assert isinstance(seen, Unknown)
    assert "Input/output error" in seen.reason


def test_our_own_are_asked_for_after_the_scan_so_that_a_child_forked_meanwhile_is_no_stranger() -> None:
    """The backend forks during the look: the child shares its socket, and is among its members only afterwards."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        launched = cpu(int(server.getsockname()[1]))
        release, held = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(held)
            os.read(release, 1)
            os._exit(0)
        scanned: list[bool] = []

        def ours() -> frozenset[int]:
            scanned.append(True)
            return frozenset({os.getpid(), child})

        try:
            seen = look_at_port(launched, ours, 1.0)
            stranger = look_at_port(launched, me, 1.0)
        finally:
            os.close(held)
            os.close(release)
            os.waitpid(child, 0)
    assert scanned == [True]
    assert isinstance(seen, Known)
    assert (seen.value.ours, seen.value.listeners, seen.value.bindable) == (True, (), True)
    assert isinstance(stranger, Known)
    assert [one.pid for one in stranger.value.listeners] == [child]


def test_one_that_was_seen_in_the_scan_and_has_ended_since_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        launched = cpu(int(server.getsockname()[1]))
        monkeypatch.setattr(looks.process, "identify", gone)
        seen = look_at_port(launched, nobody, 1.0)
    assert isinstance(seen, Known)
    assert (seen.value.listeners, seen.value.bindable) == ((), False)


def test_a_port_that_our_backend_has_bound_and_does_not_listen_on_yet_is_ours_to_bind() -> None:
    with socket.socket() as loading:
        loading.bind(("127.0.0.1", 0))
        seen = look_at_port(cpu(int(loading.getsockname()[1])), me, 1.0)
    assert isinstance(seen, Known)
    assert seen.value.ours is False
    assert seen.value.listeners == ()


ARC = CardIdentity("0000:03:00.0", 0x8086, 0xE223, "xe", "Intel Arc Pro B70", "/dev/null")


def look_at(monkeypatch: pytest.MonkeyPatch, *there: CardIdentity) -> "Known[Card] | Unknown":
    """A look at the card of a launch on a machine with these cards."""
    monkeypatch.setattr(looks, "find_cards", lambda: there)
    return looks.look_at_cards(replace(launch(), cards=(ARC.address,)), nobody, 1.0, Asker(), CardMemory())


@pytest.mark.processes
def test_a_card_that_does_not_answer_is_seen_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, part in (
        ((ARC,), "/dev/null is no device of a graphics driver"),
        ((replace(ARC, driver=None),), "no driver is bound"),
        ((), "is gone from the PCI bus"),
    ):
        seen = look_at(monkeypatch, *there)
        assert isinstance(seen, Known)
        assert part in seen.value.fault
        assert [one.census.holdings for one in seen.value.memory] == [()] * (there == (ARC,))


def test_a_card_whose_holders_arcops_cannot_read_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = look_at(monkeypatch, replace(ARC, driver="nouveau"))
    assert isinstance(seen, Unknown)
    assert "cannot read who holds card 0000:03:00.0 (driver: nouveau)" in seen.reason


@pytest.mark.asyncio
async def test_a_look_that_hangs_in_a_driver_is_an_absence_and_the_loop_hears_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lets_go = threading.Event()

    def hangs(*_: object) -> None:
        lets_go.wait()

    monkeypatch.setattr(looks, "look_at_cards", hangs)
    woken = Woken()
    eyes = Looks(Clock(), woken.set, within=0.2)
    one = cpu(free_port())
    eyes.look(one, nobody)
    async with asyncio.timeout(60):
        await woken.wait()
    port, card = eyes.seen(one)
    assert isinstance(card, Unknown)
    assert "no answer within" in card.reason
    assert isinstance(port, Known), "which was looked at before, and does not hang"
    for _ in range(AT_ONCE):
        _, card = await eyes.glance(one, nobody)
    assert isinstance(card, Unknown)
    assert "earlier attempts have not come back" in card.reason, "an order begins no fifth one"
    lets_go.set()


@pytest.mark.asyncio
async def test_a_look_under_way_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    eyes = Looks(Clock(), lambda: None)
    eyes.look(cpu(free_port()), nobody, pause=3600.0)
    async with asyncio.timeout(60):
        await eyes.close()
