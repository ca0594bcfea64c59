"""The kernel's uevents, as it sends them to everybody who listens (NETLINK_KOBJECT_UEVENT, group 1).

A message is believed only from the kernel (port 0): a process may send some as well. In a container of a user's own the
kernel sends none, and nobody can tell.
"""

import asyncio
import errno
import socket
from collections.abc import Callable

NETLINK_KOBJECT_UEVENT = 15
"""Number of include/uapi/linux/netlink.h."""
KERNEL_GROUP = 1
"""udev passes them on in group 2, after it has worked on them."""
ROOM = 1 << 20
"""Bytes of the socket's buffer, as far as the kernel allows it."""
MESSAGE = 8192
A_TURN = 128
"""Messages that are read before the loop gets its turn."""


class Uevents:
    """Hands every message of the kernel to `hear` (None where some were lost)."""

    def __init__(self, hear: Callable[[bytes | None], None]) -> None:
        """Raises OSError where the kernel refuses the socket."""
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self.ended: str | None = None
        """Why nothing comes any more, in words; None while it listens."""
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, NETLINK_KOBJECT_UEVENT)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
            self._socket.bind((0, KERNEL_GROUP))
            self._loop.add_reader(self._socket, self._read)
        except OSError:
            self._socket.close()
            raise

    def _read(self) -> None:
        for _ in range(A_TURN):
            try:
                message, sender = self._socket.recvfrom(MESSAGE)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    self._hear(None)
                    continue
                self.ended = f"uevents: {error.strerror}"
                self.close()
                return
            if from_kernel(sender):
                self._hear(message)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()


def from_kernel(sender: object) -> bool:
    """A netlink address is (port, groups); the kernel's port is 0."""
    return isinstance(sender, tuple) and sender[:1] == (0,)
