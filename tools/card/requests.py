"""Requests to the backend, whose every token's time is kept."""

import json
import threading
import time
from dataclasses import dataclass, field

import httpx


@dataclass(slots=True)
class Stream:
    """One completion, streamed in a thread of its own."""

    url: str
    model: str
    tokens: int
    prompt: object = "one two three four"
    stamps: list[float] = field(default_factory=list[float])
    """Monotonic times of the pieces of text."""
    ended: str = ""
    """How it ended: a finish reason, or the error; empty while it goes on."""
    began: float = 0.0
    _thread: "threading.Thread | None" = None

    def start(self) -> "Stream":
        self.began = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def join(self, within: float) -> None:
        assert self._thread is not None
        self._thread.join(within)

    @property
    def ttft(self) -> float | None:
        return self.stamps[0] - self.began if self.stamps else None

    @property
    def longest_gap(self) -> float:
        return max((b - a for a, b in zip(self.stamps, self.stamps[1:], strict=False)), default=0.0)

    @property
    def rate(self) -> float | None:
        """Pieces a second after the first: tokens, where nothing is speculated."""
        span = self.stamps[-1] - self.stamps[0] if len(self.stamps) > 1 else 0.0
        return (len(self.stamps) - 1) / span if span > 0 else None

    def _run(self) -> None:
        body = {
            "model": self.model,
            "prompt": self.prompt,
            "max_tokens": self.tokens,
            "temperature": 0,
            "stream": True,
            "ignore_eos": True,
        }
        try:
            with httpx.stream("POST", f"{self.url}/v1/completions", json=body, timeout=120, trust_env=False) as answer:
                answer.raise_for_status()
                for line in answer.iter_lines():
                    self._piece(line)
        except httpx.HTTPError as error:
            self.ended = self.ended or f"{type(error).__name__}: {error}"
        self.ended = self.ended or "silence"

    def _piece(self, line: str) -> None:
        if not line.startswith("data:") or line.endswith("[DONE]"):
            return
        said = json.loads(line[5:])
        if "error" in said:
            self.ended = f"error: {said['error']}"
            return
        choice = said["choices"][0]
        if choice.get("text"):
            self.stamps.append(time.monotonic())
        if choice.get("finish_reason"):
            self.ended = str(choice["finish_reason"])
