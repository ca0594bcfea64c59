"""What the real one makes on the file system. The sockets stay there however it ends, all else when it is killed."""

import mmap
import os
import secrets
import socket
import tempfile
import uuid
from contextlib import suppress

SOCKETS = 7
"""As real vLLM 0.29 makes them for one engine with one worker."""
SHARED = "/dev/shm"


class Litter:
    """Made where somebody has given it a place for its sockets (VLLM_RPC_BASE_PATH): who has not does not sweep."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._files: list[str] = []
        self._mapped: list[mmap.mmap] = []

    def make(self, *, shared_memory: bool) -> None:
        place = os.environ.get("VLLM_RPC_BASE_PATH")
        if place is None:
            return
        for _ in range(SOCKETS):
            one = socket.socket(socket.AF_UNIX)
            one.bind(f"{place}/{uuid.uuid4()}")
            self._sockets.append(one)
        self._file(os.path.join(tempfile.gettempdir(), f"vllm_dist_{uuid.uuid4().hex}"))
        if shared_memory:
            with open(self._file(f"{SHARED}/psm_{secrets.token_hex(4)}"), "r+b") as file:
                self._mapped.append(mmap.mmap(file.fileno(), 0))
            self._semaphore()

    def tidy(self) -> None:
        """At an end of its own."""
        while self._files:
            with suppress(FileNotFoundError):
                os.unlink(self._files.pop())

    def _semaphore(self) -> None:
        """As glibc makes a named one (sem_open): mapped under a first name, which it loses for the second."""
        first, second = f"{SHARED}/sem.{secrets.token_hex(3)}", f"{SHARED}/sem.mp-{secrets.token_hex(4)}"
        with open(self._file(first), "r+b") as file:
            self._mapped.append(mmap.mmap(file.fileno(), 0))
        os.link(first, second)
        os.unlink(first)
        self._files.append(second)

    def _file(self, path: str) -> str:
        with open(path, "xb") as file:
            file.write(bytes(32))
        self._files.append(path)
        return path
