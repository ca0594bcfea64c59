"""Which server is measured: the daemon's own backend, or whoever listens there, with its command line."""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from urllib.parse import urlsplit

from arcops import wire
from arcops.client import Client
from arcops.core.errors import ArcopsError
from arcops.core.evidence.setting import Configuration, ServerFacts
from arcops.core.launch import HIDDEN, hidden
from arcops.machine import port, proc

MOST_WORDS = 512
"""Words of a command line that are kept; vLLM's longest have some sixty."""
_SERVES = "serve"
_AT_ONCE = "--max-num-seqs"
_SECRET = re.compile(r"(key|token|secret|password|passphrase)$", re.IGNORECASE)
"""How a flag ends whose words are a secret (`--api-key`, `--hf-token`); `--max-num-batched-tokens` is none."""


@dataclass(frozen=True, slots=True)
class Server:
    """What is known of a server's launch."""

    configuration: Configuration
    cards: tuple[str, ...] | None
    """PCI addresses of the cards that it runs on; empty on the CPU, None where that is not known."""
    by_daemon: bool
    remark: str = ""
    """Why there is no more, in words."""
    recording: bool = False
    """The daemon is still at recording the launch's environment."""


def known(server: ServerFacts, socket: Path | None) -> Server:
    """Ask the daemon, where it answers and the server is its backend; else look who listens at the server's port.

    Blocking, up to seconds. Raises nothing: what cannot be known is said in `remark`.
    """
    if socket is not None and os.path.exists(socket):
        told = _of_daemon(server, socket)
        if told is not None:
            return told
    return _of_process(server)


def _of_daemon(server: ServerFacts, socket: Path) -> Server | None:
    """None where no daemon answers, or its backend is another server."""
    try:
        with Client(socket, within=10.0) as client:
            status = client.status()
            running = client.profiles().running
    except ArcopsError:
        return None
    backend = status.backend
    if backend is None or running is None or not same_place(backend.url, server.url):
        return None
    configuration = Configuration(
        source="daemon",
        profile=backend.profile,
        launch_id=backend.launch_id,
        argv=running.argv,
        environment=running.environment,
        max_num_seqs=backend.max_running,
        environment_digest=_digest(status.environment, backend.launch_id),
    )
    cards = tuple(one.address for one in status.cards)
    return Server(configuration, cards, by_daemon=True, recording=_recording(status.environment, backend.launch_id))


def _digest(environment: wire.EnvironmentInfo | None, launch_id: str) -> str | None:
    return environment.digest if environment is not None and environment.launch_id == launch_id else None


def _recording(environment: wire.EnvironmentInfo | None, launch_id: str) -> bool:
    """No digest, and no reason why there will be none; an older daemon records none."""
    if environment is None:
        return False
    return environment.launch_id != launch_id or (environment.digest is None and not environment.unread)


def _of_process(server: ServerFacts) -> Server:
    at = urlsplit(server.url)
    host, number = at.hostname or "", at.port or 80
    if not is_here(host):
        return Server(
            Configuration("unknown"), None, False, f"{host} is another machine: its command line is not known"
        )
    try:
        found = {one.pid for one in port.listeners(number) if one.listens}
        lines = {pid: command_line(pid) for pid in found if pid is not None}
    except OSError as error:
        return Server(
            Configuration("unknown"), None, False, f"who listens at {number} cannot be read: {error.strerror}"
        )
    served = [words for words in lines.values() if _SERVES in words]
    if not served:
        who = "a process that may not be looked into" if None in found else "no `vllm serve`"
        return Server(Configuration("unknown"), None, False, f"at port {number} listens {who}")
    # A proxy would be the listener instead; workers that share the socket have the same line.
    argv = _from_program(max(served, key=len))
    return Server(Configuration("process", argv=concealed(argv), max_num_seqs=at_once(argv)), None, False)


def command_line(pid: int, root: str = proc.ROOT) -> tuple[str, ...]:
    """The words of a process's command line; empty where it has gone or may not be read."""
    try:
        with open(f"{root}/{pid}/cmdline", "rb") as file:
            content = file.read(1 << 20)
    except OSError:
        return ()
    return tuple(word.decode("utf-8", "replace") for word in content.split(b"\0")[:MOST_WORDS] if word)


def _from_program(words: Sequence[str]) -> tuple[str, ...]:
    """From the `vllm` on: the interpreter before it is the environment's business."""
    at = words.index(_SERVES)
    return tuple(words[max(0, at - 1) :])


def concealed(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line with its secrets hidden: all words after a flag that takes them (`--api-key A B`), and in URLs."""
    told: list[str] = []
    secret = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if word.startswith("--"):
            secret = _SECRET.search(name) is not None
            told.append(f"{name}={HIDDEN}" if secret and equals else hidden("", word))
        else:
            told.append(HIDDEN if secret else hidden("", word))
    return tuple(told)


def at_once(argv: Sequence[str]) -> int | None:
    """Requests that the command line lets run at once; None where it leaves that to vLLM."""
    for word, following in zip_longest(argv, argv[1:], fillvalue=""):
        name, _, value = word.replace("_", "-").partition("=")
        said = value or following
        if name == _AT_ONCE and said.isdecimal() and len(said) < 9:
            return int(said)
    return None


def same_place(one: str, other: str) -> bool:
    """Two URLs lead to one server of this machine, by port and by where they lead to."""
    first, second = urlsplit(one), urlsplit(other)
    hosts = first.hostname or "", second.hostname or ""
    return first.port == second.port and (hosts[0] == hosts[1] or all(map(is_here, hosts)))


def is_here(host: str) -> bool:
    """A name or address of this machine's loopback. Others may be this machine as well: then nobody says so."""
    if host in ("", "localhost"):
        return host == "localhost"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
