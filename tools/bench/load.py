"""Work for the server while costs are measured."""

import threading
import time
from types import TracebackType
from typing import Self

import httpx

ANSWER_WITHIN = 120.0
"""Seconds for one completion of 256 tokens; it takes about one."""
PAUSE = 0.2
"""Seconds between two completions."""


class Chatter:
    """So many lines in the backend's log each second, until it is left: its access log has one for each request."""

    def __init__(self, port: int, lines_per_second: float) -> None:
        self._url = f"http://127.0.0.1:{port}/ping"
        self._every = 1.0 / lines_per_second
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.said = 0

    def _run(self) -> None:
        due = time.monotonic()
        with httpx.Client(trust_env=False, timeout=ANSWER_WITHIN) as client:
            while not self._done.wait(max(0.0, due - time.monotonic())):
                client.get(self._url)
                self.said += 1
                due += self._every

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(ANSWER_WITHIN)


class Load:
    """One completion after another, until it is left. A load that failed is no load: SystemExit, when it is left."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/completions"
        self._done = threading.Event()
        self.failed: httpx.HTTPError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        body = {"model": "demo", "prompt": "The supervisor", "max_tokens": 256, "temperature": 0}
        try:
            with httpx.Client(trust_env=False, timeout=ANSWER_WITHIN) as client:
                while not self._done.wait(PAUSE):
                    client.post(self._url, json=body).raise_for_status()
        except httpx.HTTPError as error:
            self.failed = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if error is not None:
            return  # what broke off the measurement counts; the thread ends with the program
        self._thread.join(ANSWER_WITHIN + 10)
        if self.failed is not None:
            why = str(self.failed) or type(self.failed).__name__
            raise SystemExit(f"the load on {self._url} broke off: {why}") from self.failed
