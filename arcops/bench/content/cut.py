"""Slices of content in the server's own tokens: exact in number, none used twice, each with a beginning of its own."""

from collections.abc import Iterator
from itertools import cycle
from typing import Final, Protocol

from arcops.bench.content.texts import KINDS, Kind, lines
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.work import digest

LEAST: Final = 32
"""Tokens of the shortest prompt: less has no room for its own beginning and for content."""
PART: Final = 1024
"""Tokens of one kind in a row, where a prompt has all of them."""
_LONGEST_TEXT: Final = 16_000
"""Characters that are tokenized at once."""
_SHORTEST_TEXT: Final = 400
_CHARACTERS: Final = 5
"""Per token, by which text is taken: a little more than most tokenizers need, and what is over is kept for the next."""


class Tokenize(Protocol):
    """Text to the ids of the served model; `special`: with those that its tokenizer puts around a prompt."""

    async def __call__(self, text: str, *, special: bool = False) -> tuple[int, ...]: ...


class Content:
    """All content of one run; what was cut from it is gone."""

    def __init__(self, tokenize: Tokenize, salt: str = "") -> None:
        """`salt` goes into each prompt's beginning: another one makes another workload."""
        self._tokenize = tokenize
        self._salt = salt
        self._sources = {kind: _Source(kind, tokenize) for kind in KINDS}
        self._special: tuple[int, ...] | None = None

    async def cut(self, kind: Kind, name: str, tokens: int) -> tuple[int, ...]:
        """The prompt `name` of exactly `tokens` ids. Raises ArcopsError where content or a tokenizer is lacking."""
        start = await self._beginning(name, tokens)
        rest = tokens - len(start)
        found = await self._sources[kind].take(rest)
        if len(found) < rest:
            short = rest - len(found)
            raise ArcopsError(
                f"there is not enough {kind.value} for the prompt {name}: {short:,} of {tokens:,} tokens are missing",
                hint="no content is used twice in a run: ask for fewer or shorter prompts",
                exit_code=ExitCode.USAGE,
            )
        return start + found

    async def mixed(self, name: str, tokens: int) -> tuple[int, ...]:
        """The same of all kinds in turn; of those that are not used up."""
        found = list(await self._beginning(name, tokens))
        for kind in cycle(KINDS):
            if len(found) >= tokens:
                break
            found += await self._sources[kind].take(min(PART, tokens - len(found)))
        return tuple(found)

    async def _beginning(self, name: str, tokens: int) -> tuple[int, ...]:
        """What no other prompt of any salt begins with: a prefix cache finds nothing that it knows."""
        if tokens < LEAST:
            problem = f"a prompt of {tokens} tokens is too short"
            raise ArcopsError(problem, hint=f"{LEAST} are the least", exit_code=ExitCode.USAGE)
        mark = digest(f"{self._salt}/{name}".encode()).removeprefix("sha256:")[:8]
        plain = await self._tokenize(f"{mark}\n")
        if self._special is None:
            self._special = _before(plain, await self._tokenize(f"{mark}\n", special=True))
        return (*self._special, *plain)[: LEAST - 1]


class _Source:
    """One kind of content, in ids."""

    def __init__(self, kind: Kind, tokenize: Tokenize) -> None:
        self._kind = kind
        self._lines: Iterator[str] | None = None
        self._tokenize = tokenize
        self._over: tuple[int, ...] = ()

    async def take(self, tokens: int) -> tuple[int, ...]:
        """The next ids, fewer where there are no more."""
        found = list(self._over)
        while len(found) < tokens:
            text = self._text((tokens - len(found)) * _CHARACTERS)
            if not text:
                break
            ids = await self._tokenize(text)
            if not ids:
                raise ArcopsError("the server's tokenizer gives no tokens for a text", hint="is it a language model?")
            found += ids
        self._over = tuple(found[tokens:])
        return tuple(found[:tokens])

    def _text(self, characters: int) -> str:
        """The next whole lines: about so many characters, within bounds; empty at the end."""
        self._lines = lines(self._kind) if self._lines is None else self._lines
        wanted = max(_SHORTEST_TEXT, min(_LONGEST_TEXT, characters))
        taken: list[str] = []
        size = 0
        for line in self._lines:
            taken.append(line)
            size += len(line)
            if size >= wanted:
                break
        return "".join(taken)


def _before(plain: tuple[int, ...], special: tuple[int, ...]) -> tuple[int, ...]:
    """What the tokenizer puts before a text; empty where that cannot be told."""
    for at in range(len(special) - len(plain) + 1):
        if special[at : at + len(plain)] == plain:
            return special[:at]
    return ()
