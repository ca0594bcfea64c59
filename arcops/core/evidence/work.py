"""What is asked of a server: the requests of a workload, the same for every server that is compared."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Prompt = str | tuple[int, ...]
"""Text, or ids of the model's own tokens where the length has to be exact."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. Neither min_p nor logit_bias: any speculative method refuses them."""

    temperature: float = 0.0
    """0 is greedy: the likeliest token, the only way in which two servers can be compared token by token."""
    top_p: float | None = None
    seed: int | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


GREEDY = Sampling()


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a workload, for the completions API."""

    name: str
    """Unique within its workload; the answers of two runs are held against each other by it."""
    kind: str
    """The class of its content: `prose`, `code`, `documents`, or a class of the suite."""
    prompt: Prompt
    max_tokens: int
    """The most tokens of the answer."""
    sampling: Sampling = GREEDY
    to_the_end: bool = False
    """The answer ends only after `max_tokens` tokens, whatever the model says (`ignore_eos`)."""
    cache_salt: str | None = None
    """The server's prefix cache answers only what was asked with the same one (vLLM's `cache_salt`). It changes no
    token, so it is no part of what was asked: the same item may be asked cold, with a new one, and cached, with the
    last."""


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """What a record says of an item: enough to tell that another run asked the very same."""

    name: str
    kind: str
    prompt_digest: str
    """`sha256:` and 64 hexadecimal digits, over the text or over the JSON list of ids."""
    prompt_length: int
    """Tokens where the prompt is ids, characters where it is text."""
    prompt_is_ids: bool
    max_tokens: int
    sampling: Sampling
    to_the_end: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of one run, as its record tells them."""

    name: str
    """`long-prompt`, `context`, `ladder`, `suite`."""
    options: Mapping[str, str]
    """What was chosen on the command line, by the names of the options there, as text."""
    items: tuple[ItemFacts, ...]
    digest: str
    """Over the items: two runs with the same one asked the same."""


def facts_of(item: Item) -> ItemFacts:
    """An item as a record tells it."""
    text = item.prompt if isinstance(item.prompt, str) else json.dumps(item.prompt)
    return ItemFacts(
        name=item.name,
        kind=item.kind,
        prompt_digest=digest(text.encode()),
        prompt_length=len(item.prompt),
        prompt_is_ids=not isinstance(item.prompt, str),
        max_tokens=item.max_tokens,
        sampling=item.sampling,
        to_the_end=item.to_the_end,
    )


def workload(name: str, options: Mapping[str, str], items: tuple[Item, ...]) -> Workload:
    """The workload of these items; their order does not count for its digest."""
    facts = tuple(facts_of(item) for item in items)
    return Workload(name, dict(options), facts, digest_of_items(facts))


def digest_of_items(items: Iterable[ItemFacts]) -> str:
    """Of a workload: over what is asked, each item as a JSON list, in the order of their names."""
    lines = sorted(json.dumps(_asked(item)) for item in items)
    return digest("\n".join(lines).encode())


def _asked(item: ItemFacts) -> list[str | int | float | bool | None]:
    how = item.sampling
    top_p = None if how.top_p is None else float(how.top_p)
    # As floats: a record that is read again has 0.0 where 0 was meant.
    sampling = [float(how.temperature), top_p, how.seed]
    return [item.name, item.prompt_digest, item.max_tokens, *sampling, item.to_the_end]


def digest(content: bytes) -> str:
    """SHA-256, as everything here is named by: `sha256:` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def digest_of_tokens(tokens: tuple[int, ...]) -> str:
    """Of an answer: over its ids as a JSON list."""
    return digest(json.dumps(tokens, separators=(",", ":")).encode())
