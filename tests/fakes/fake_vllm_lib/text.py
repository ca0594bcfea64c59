"""Words for tokens: a small reversible tokenizer without a memory, and what the fake's model says next.

Every fake has the same ids for the same text, and the next token depends on nothing but the ids before it: so two
servers can be compared token by token, and a prompt that ends in half of an answer is gone on with by the other half.
"""

import re
import zlib
from array import array
from collections.abc import Sequence

TEXT = (
    "The supervisor starts one server at a time and watches it until it is ready. When a request comes in, the "
    "scheduler gives it some blocks of the cache and begins the prefill. Draft tokens are proposed, verified by the "
    "target, and either accepted or thrown away. If the engine dies, its parent must notice, say why, and leave no "
    "orphan that holds memory. Green means healthy, yellow means slow, red means that somebody should look now."
)
COMMON = "one two three four five six seven eight nine ten to for with not be as on from or this was you if we an can"
GARBAGE = "!"
END = 256
"""The id that ends an answer (EOS); it has no text."""
THOUGHT = 257
"""The id that ends the reasoning (`</think>`); it has no text either."""
WORDS = re.compile(r" ?[A-Za-z0-9_]+|.", re.DOTALL)
ALPHABET = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
BASE = len(ALPHABET) + 1
"""A digit of a packed piece: 0 is none, the others are characters."""
LONGEST = 4
"""Characters of a piece of a word that is not in the vocabulary."""
FIRST_WORD = 300
FIRST_PIECE = 1000
VOCABULARY = FIRST_PIECE + BASE**LONGEST

ASTRAY = 7
"""Words that an answer in earnest is ahead of the right one."""


class Tokenizer:
    """Ids 0 to 255 are bytes, then come words, then pieces of up to four letters of any other word."""

    def __init__(self) -> None:
        found = WORDS.findall(f" {TEXT}") + WORDS.findall(f" {COMMON}") + WORDS.findall(COMMON)
        known = dict.fromkeys(word for word in found if word[-1].isalpha())
        self._words = {FIRST_WORD + at: word.encode() for at, word in enumerate(known)}
        self._ids = {word: [FIRST_WORD + at] for at, word in enumerate(known)}
        self.garbage = self.encode(GARBAGE)[0]
        self._story = self.encode(f" {TEXT}")

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = []
        for word in WORDS.findall(text):
            tokens += self._ids.get(word) or _pieces(word)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return self.bytes_of(tokens).decode(errors="replace")

    def bytes_of(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self._bytes(token) for token in tokens)

    def _bytes(self, token: int) -> bytes:
        if token < END:
            return bytes((token,))
        return self._words.get(token) or (_unpacked(token - FIRST_PIECE) if token >= FIRST_PIECE else b"")

    def begin(self, prompt: Sequence[int], salt: int = 0) -> int:
        """The state of the model after a prompt; `salt` is 0 for greedy answers."""
        return zlib.crc32(array("I", prompt).tobytes(), salt)

    def onward(self, state: int, token: int) -> int:
        """The state after one more token."""
        return zlib.crc32(token.to_bytes(4, "little"), state)

    def next(self, state: int, ahead: int = 0) -> int:
        """The token that follows; with `ahead` another one, which is never the same."""
        return self._story[(state + ahead) % len(self._story)]

    def runner_up(self, state: int) -> int:
        """The second likeliest: what a near-tie flips to."""
        first = self.next(state)
        return next(token for ahead in range(ASTRAY, 2 * ASTRAY) if (token := self.next(state, ahead)) != first)

    def likelihoods(self, state: int, count: int) -> dict[int, float]:
        """Log-probabilities of the `count` likeliest tokens at this state (at least the first two), likeliest first."""
        gap = (state >> 8) % 1000 / 2000
        found = {self.next(state): -0.5, self.runner_up(state): -0.5 - gap}
        for ahead in range(len(self._story)):
            if len(found) >= max(2, count):
                break
            found.setdefault(self.next(state, ahead), -3.0 - ahead / 10)
        return found


UNLIKELY = -20.0
"""Log-probability of every token that the model does not think of."""


def _pieces(word: str) -> list[int]:
    """A word that is not in the vocabulary: letters packed by four, anything else as its bytes in UTF-8."""
    if word not in ALPHABET and len(word) == 1:
        return list(word.encode())
    return [_packed(word[start : start + LONGEST]) for start in range(0, len(word), LONGEST)]


def _packed(piece: str) -> int:
    value = 0
    for character in piece:
        value = value * BASE + ALPHABET.index(character) + 1
    return FIRST_PIECE + value


def _unpacked(value: int) -> bytes:
    digits: list[str] = []
    while value:
        value, digit = divmod(value, BASE)
        if digit:
            digits.append(ALPHABET[digit - 1])
    return "".join(reversed(digits)).encode()
