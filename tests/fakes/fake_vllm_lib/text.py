"""Words for tokens: a reversible tokenizer that learns words as it sees them, and a text to go on with."""

import re
import zlib
from collections.abc import Sequence
from threading import Lock

TEXT = (
    "The supervisor starts one server at a time and watches it until it is ready. When a request comes in, the "
    "scheduler gives it some blocks of the cache and begins the prefill. Draft tokens are proposed, verified by the "
    "target, and either accepted or thrown away. If the engine dies, its parent must notice, say why, and leave no "
    "orphan that holds memory. Green means healthy, yellow means slow, red means that somebody should look now."
)
GARBAGE = "!"
WORDS = re.compile(r"\s*[^\s\w]|\s*\w+|\s+")


class Tokenizer:
    """Token ids for words; a word gets the next free id when it is seen first."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._words: list[str] = []
        self._lock = Lock()
        self.garbage = self.encode(GARBAGE)[0]
        self._story = self.encode(" " + TEXT)

    def encode(self, text: str) -> list[int]:
        with self._lock:
            return [self._id(word) for word in WORDS.findall(text)]

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._words)
            self._words.append(word)
        return self._ids[word]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._words[token] if token < len(self._words) else f" <{token}>" for token in tokens)

    def continuation(self, prompt: Sequence[int], index: int) -> int:
        """The token that follows `prompt` at `index`: the same for the same prompt, always."""
        begin = zlib.crc32(",".join(map(str, prompt[-64:])).encode()) % len(self._story)
        return self._story[(begin + index) % len(self._story)]


def chat_prompt(messages: Sequence[tuple[str, str]]) -> str:
    """Messages (role, text) as one prompt."""
    turns = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
    return f"{turns}<|im_start|>assistant\n"
