"""The port: whether it can be bound, and who listens there."""

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from arcops.machine import proc, sockets
from arcops.machine.sockets import SocketState, join

_Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""What getaddrinfo gives and bind takes."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A process that has a port. `pid` and `command` are None where this user may not look."""

    pid: int | None
    command: str | None
    user: str | None
    address: str
    """`127.0.0.1:8000`, `[::]:8000`."""
    listens: bool = True
    """False for one that has bound the port and does not listen yet, vLLM while it loads (seen since kernel 6.8)."""


def bindable(host: str, port: int) -> str | None:
    """None when a server could listen on host and port right now, else why not.

    SO_REUSEPORT is never set: with it, a bind beside another server of the same user succeeds (vLLM does so). A strict
    bind, without SO_REUSEADDR, sees everything, but also the connections that a former server left in TIME_WAIT for a
    minute. A bind with SO_REUSEADDR overlooks these, but also a server that has bound the port and does not listen yet:
    vLLM while it loads. So the strict one comes first; the other may overrule it only where such connections are seen.
    """
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        return f"{join(host, port)}: {error.strerror}"
    strict = _listen(family, kind, number, address, reuse=False)
    if strict is None:
        return None
    if strict.errno != errno.EADDRINUSE:
        return f"{join(host, port)}: {strict.strerror}"
    if _listen(family, kind, number, address, reuse=True) is not None:
        return f"{join(host, port)} is taken"
    try:
        states = {one.state for one in sockets.every(port)}
    except OSError as error:
        return f"{join(host, port)} is taken, perhaps only by old connections: {error}"
    if states == {SocketState.CONNECTED}:
        return None
    return f"{join(host, port)} is bound by a process that does not listen yet"


def listeners(port: int) -> tuple[Listener, ...]:
    """Everybody who has the port, at any address; one that may not be looked into has no pid.

    Raises OSError when the kernel's table of sockets cannot be read.
    """
    found: list[Listener] = []
    having = sockets.listening(port)
    owners = _owners({one.inode for one in having}) if having else {}
    for one in having:
        listens = one.state is SocketState.LISTENS
        for pid in owners.get(one.inode, ()):
            command, user = proc.describe(pid)
            found.append(Listener(pid, command, user, one.address, listens))
        if one.inode not in owners:
            found.append(Listener(None, None, proc.user_name(one.uid), one.address, listens))
    return tuple(found)


def listener_pids(port: int, pids: Iterable[int]) -> set[int]:
    """Which of `pids` listen on the port. Looks only at these, so it is cheap. Raises OSError like `listeners`."""
    listening = (one for one in sockets.listening(port) if one.state is SocketState.LISTENS)
    wanted = {f"socket:[{one.inode}]" for one in listening}
    return {pid for pid in pids if wanted and not wanted.isdisjoint(_targets(pid))}


def _listen(family: int, kind: int, number: int, address: _Address, *, reuse: bool) -> OSError | None:
    """Bind and listen for a moment: bind alone succeeds beside a listener in some combinations of options."""
    try:
        with socket.socket(family, kind, number) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return error
    return None


def _owners(inodes: set[str]) -> dict[str, list[int]]:
    owners: dict[str, list[int]] = {}
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for pid in sorted(proc.pids()):
        for target in _targets(pid) & wanted.keys():
            owners.setdefault(wanted[target], []).append(pid)
    return owners


def _targets(pid: int) -> set[str]:
    """What the descriptors of a process point to; empty as well when this user may not look."""
    try:
        return {target for _, target in proc.descriptors(pid)}
    except PermissionError:
        return set()
