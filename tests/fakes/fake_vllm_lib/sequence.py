"""One sequence of the engine: what was asked, how far it is, and which token comes next."""

import time
from queue import SimpleQueue

from fake_vllm_lib.settings import Settings
from fake_vllm_lib.text import ASTRAY, END, Tokenizer

KEPT = 2**40
"""Tokens that a request goes on for whose client has gone, where it keeps its slot."""


class Output:
    """Some tokens of a request, and why it ended if it did (`stop`, `length`, `abort` or `error`)."""

    def __init__(self, tokens: list[int], finish: str | None) -> None:
        self.tokens = tokens
        self.finish = finish


class Request:
    """One sequence. The engine's lock guards it; only `outputs` is shared with whoever waits for it."""

    def __init__(
        self,
        prompt: list[int],
        max_tokens: int,
        *,
        salt: int = 0,
        script: list[int] | None = None,
        to_the_end: bool = False,
        cache_salt: str = "",
    ) -> None:
        """`salt` is 0 for a greedy answer. A `script` is what is answered, with the token that ends it."""
        self.prompt = prompt
        self.salt = salt
        self.script = script or []
        self.to_the_end = to_the_end
        self.cache_salt = cache_salt
        self.number = 0
        """Among the requests since the settings were changed, from 1."""
        self.state: int | None = None
        """Of the model after the prompt and what was produced; None before the first token."""
        self.max_tokens = max_tokens
        self.outputs: SimpleQueue[Output] = SimpleQueue()
        self.arrived = time.monotonic()
        self.scheduled = 0.0
        self.first_token = 0.0
        self.last_token = 0.0
        self.computed = 0
        """Tokens whose keys and values are in the cache."""
        self.cached = 0
        self.produced = 0
        self.blocks = 0
        self.ends_at: int | None = None
        self.told = 0
        """State of the model after what its asker was told, where log-probabilities are asked for."""
        self.offset = 0
        """Characters that were told, likewise."""
        self.drawn = 0
        """Tokens of the answer that the model has named."""

    @property
    def prefilling(self) -> bool:
        return self.computed < len(self.prompt) + max(0, self.produced - 1) and not self.decoding

    @property
    def decoding(self) -> bool:
        return self.produced > 0 and self.computed >= len(self.prompt) + self.produced - 1

    @property
    def to_prefill(self) -> int:
        return len(self.prompt) + max(0, self.produced - 1) - self.computed

    def go_on(self) -> None:
        """Never end, whoever has gone."""
        self.max_tokens = KEPT
        self.script = []
        self.ends_at = None

    def next(self, words: Tokenizer, settings: Settings, crowd: int) -> int:
        """The next token, where `crowd` requests run at once."""
        if self.state is None:
            self.state = words.begin(self.prompt, self.salt)
            self.ends_at = self._end(settings.eos_after, self.state)
        at = self.drawn
        if settings.garbage:
            token = words.garbage
        elif at == settings.flip_at and settings.flip_nth in (0, self.number) and crowd >= settings.flip_from:
            token = words.runner_up(self.state)
        elif at == self.ends_at:
            token = END
        elif at < len(self.script):
            token = self.script[at]
        else:
            token = words.next(self.state, ASTRAY if settings.astray else 0)
        self.state = words.onward(self.state, token)
        self.drawn += 1
        return token

    def _end(self, after: int, state: int) -> int | None:
        """Where an answer ends by itself."""
        if self.script or self.to_the_end or not after:
            return None
        return after + state % (after + 1)
