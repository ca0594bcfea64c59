"""The kernel's uevents: a real one is heard, a forged one is not, and losses are said."""

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from arcops.core.diagnosis.notices import Uevent, parse_uevent
from arcops.machine import uevents
from arcops.machine.uevents import KERNEL_GROUP, NETLINK_KOBJECT_UEVENT, Uevents, from_kernel
from tests.daemon.waiting import until
from tests.helpers import cannot_run_here

DEVICE = Path("/sys/class/mem/null/uevent")
"""Whose uevent anybody may ask the kernel for who may write there; nothing happens to the device."""


def listening(heard: list[bytes | None]) -> Uevents:
    try:
        return Uevents(heard.append)
    except OSError as error:
        cannot_run_here(f"netlink: {error.strerror}")


@pytest.mark.asyncio
async def test_a_real_event_of_the_kernel_is_heard_and_understood() -> None:
    heard = list[bytes | None]()
    listener = listening(heard)
    try:
        asked_for()
    except OSError as error:
        listener.close()
        cannot_run_here(f"{DEVICE}: {error.strerror}")

    def found() -> bool:
        return any(event is not None and event.path.endswith("/mem/null") for event in map(parse, heard))

    await until(found)
    (event,) = {event.action for event in map(parse, heard) if event is not None and event.path.endswith("/mem/null")}
    assert event == "change"
    assert listener.ended is None
    listener.close()
    listener.close()


def asked_for() -> None:
    """Raises OSError where this user may not."""
    DEVICE.write_text("change")


def parse(message: bytes | None) -> Uevent | None:
    return None if message is None else parse_uevent(message)


@pytest.mark.asyncio
async def test_what_another_process_sends_is_not_believed() -> None:
    heard = list[bytes | None]()
    listener = listening(heard)
    forged = b"change@/devices/forged\0SUBSYSTEM=drm\0WEDGED=rebind\0"
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_KOBJECT_UEVENT) as sender:
        try:
            sender.sendto(forged, (0, KERNEL_GROUP))
            asked_for()
        except OSError as error:
            listener.close()
            cannot_run_here(f"a uevent cannot be forged here: {error.strerror}")
    await until(lambda: any(message is not None and b"/mem/null" in message for message in heard))
    assert forged not in heard
    listener.close()


@pytest.mark.parametrize(
    ("sender", "believed"), [((0, 1), True), ((0, 0), True), ((4711, 1), False), ((), False), (None, False)]
)
def test_only_the_kernels_port_is_believed(sender: object, believed: bool) -> None:
    assert from_kernel(sender) is believed


class Broken(socket.socket):
    """A netlink socket that says what the kernel may say."""

    answers: list[int]

    def recvfrom(self, size: int, flags: int = 0) -> tuple[bytes, object]:
        raise OSError(*((number := self.answers.pop(0)), os.strerror(number)))


@pytest.mark.asyncio
async def test_lost_messages_are_said_and_a_broken_socket_is_known_to_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uevents.socket, "socket", Broken)
    heard = list[bytes | None]()
    listener = listening(heard)
    Broken.answers = [errno.ENOBUFS, errno.EAGAIN, errno.EBADF]
    listener._read()  # pyright: ignore[reportPrivateUsage] - as the loop calls it
    assert (heard, listener.ended) == ([None], None)
    listener._read()  # pyright: ignore[reportPrivateUsage] - the same
    assert listener.ended == "uevents: Bad file descriptor"


@pytest.mark.asyncio
async def test_where_the_kernel_refuses_it_the_reason_is_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(uevents.socket, "socket", refused)
    with pytest.raises(OSError, match="not supported"):
        Uevents(lambda message: None)
    await asyncio.sleep(0)
