import errno
import os
import socket
from collections.abc import Iterator
from typing import NoReturn

import pytest

from arcops.machine import sockets
from arcops.machine.port import bindable, listener_pids, listeners
from arcops.machine.sockets import SocketState
from tests.helpers import cannot_run_here, free_port
from tests.machine.processes import as_nobody, hear, python

LISTENER = """
import socket, sys
with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", int(sys.argv[1])))
    if sys.argv[2] == "listen":
        server.listen()
    print("bound", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(port: int) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", port)) as listening:
        yield listening


def test_a_free_port_is_bindable_and_stays_so(port: int) -> None:
    assert bindable("127.0.0.1", port) is None
    assert bindable("127.0.0.1", port) is None
    assert listeners(port) == ()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_listener_is_in_the_way_of_its_own_and_of_every_address(host: str, port: int) -> None:
    assert bindable(host, port) == f"{host}:{port} is taken"


@pytest.mark.usefixtures("server")
def test_a_listener_is_named(port: int) -> None:
    (found,) = listeners(port)
    assert found.pid == os.getpid()
    assert found.command is not None
    assert found.user is not None
    assert found.address == f"127.0.0.1:{port}"


@pytest.mark.processes
def test_a_listener_with_reuse_port_is_seen(port: int) -> None:
    with python(LISTENER, str(port), "listen") as other:
        hear(other)
        assert bindable("127.0.0.1", port) == f"127.0.0.1:{port} is taken"
        assert [one.pid for one in listeners(port)] == [other.pid]
        assert listener_pids(port, [os.getpid(), other.pid, 2**22 + 1]) == {other.pid}
    assert listener_pids(port, [os.getpid()]) == set()


@pytest.mark.processes
def test_a_server_that_has_bound_and_still_loads_is_seen(port: int) -> None:
    with python(LISTENER, str(port), "load") as other:
        hear(other)
        assert bindable("127.0.0.1", port) == f"127.0.0.1:{port} is bound by a process that does not listen yet"
        # Older kernels (before 6.8) show nothing of such a socket.
        assert [one.pid for one in listeners(port) if not one.listens] in ([other.pid], [])
        assert listener_pids(port, [other.pid]) == set()
    assert bindable("127.0.0.1", port) is None


def test_old_connections_do_not_block(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)) as client:
        accepted, _ = server.accept()
        # The side that closes first keeps the port in TIME_WAIT.
        accepted.close()
        assert client.recv(1) == b""
    with socket.socket() as strict, pytest.raises(OSError, match="in use"):
        strict.bind(("127.0.0.1", port))
    assert bindable("127.0.0.1", port) is None


def test_an_address_of_another_machine_is_not_bindable(port: int) -> None:
    assert bindable("192.0.2.1", port) == f"192.0.2.1:{port}: Cannot assign requested address"


def test_a_host_that_means_nothing_is_not_bindable(port: int) -> None:
    assert bindable("256.1.1.1", port) is not None


def test_ipv6_is_understood(port: int) -> None:
    if not socket.has_ipv6 or bindable("::1", port) is not None:
        cannot_run_here("no IPv6 on the loopback")
    with socket.create_server(("::1", port), family=socket.AF_INET6):
        assert bindable("::1", port) == f"[::1]:{port} is taken"
        assert [one.address for one in listeners(port)] == [f"[::1]:{port}"]


@pytest.mark.processes
@pytest.mark.usefixtures("server")
def test_a_listener_that_may_not_be_looked_into_keeps_its_user(port: int) -> None:
    seen = as_nobody(lambda: repr(listeners(port)))
    assert seen == f"(Listener(pid=None, command=None, user='root', address='127.0.0.1:{port}', listens=True),)"


def forbid_netlink(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> NoReturn:
        raise PermissionError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(sockets, "_ask", forbidden)


@pytest.mark.usefixtures("server")
def test_where_netlink_is_forbidden_the_table_says_the_same(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_connection(("127.0.0.1", port)):
        listening, every = sockets.listening(port), sockets.every(port)
        forbid_netlink(monkeypatch)
        assert sockets.listening(port) == listening
        assert set(sockets.every(port)) == set(every)
        assert {one.state for one in every} == {SocketState.LISTENS, SocketState.CONNECTED}


@pytest.mark.processes
def test_where_netlink_is_forbidden_a_loading_server_is_seen_all_the_same(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_netlink(monkeypatch)
    with python(LISTENER, str(port), "load") as other:
        hear(other)
        assert bindable("127.0.0.1", port) == f"127.0.0.1:{port} is bound by a process that does not listen yet"


def test_a_table_that_cannot_be_read_is_no_free_port(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_netlink(monkeypatch)
    monkeypatch.setattr(sockets, "_TABLES", ("/nowhere/tcp",))
    with pytest.raises(OSError, match="nowhere"):
        listeners(port)
