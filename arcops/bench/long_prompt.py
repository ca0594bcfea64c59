"""`long-prompt`: what a long prompt costs cold, what it costs when the server has it already, and with sampling."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from arcops.bench import course
from arcops.bench.content.cut import LEAST, Content
from arcops.bench.course import Planned, Ready
from arcops.bench.drive import Progress
from arcops.bench.server import BenchServer
from arcops.core.evidence.run import Run
from arcops.core.evidence.setting import ServerFacts
from arcops.core.evidence.work import GREEDY, Item, Sampling, workload

NAME: Final = "long-prompt"
REFERENCE: Final = 133_745
"""Prompt tokens of the deployment that this benchmark's figures are held against."""
SAMPLED: Final = Sampling(temperature=0.7, top_p=0.95)
_WARM_UP: Final = (64, 16)
"""Tokens of prompt and answer: what a server does only once (compiling a sampler) is over before it counts."""
_CACHING: Final = "enable_prefix_caching"
"""The label of `vllm:cache_config_info`."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may choose."""

    tokens: int | None = None
    """Of the prompt; None: as many as the reference has, or as fit."""
    output: int = 512
    """The most tokens of an answer."""
    to_the_end: bool = False
    """Answers end only after `output` tokens."""
    salt: str = ""
    keep_going: bool = False


def options_of(words: Mapping[str, str], *, keep_going: bool = False) -> Options:
    """What was chosen, by the options' names; what is not there is as ever. Raises ArcopsError (usage)."""
    return Options(
        tokens=course.whole(words, "tokens", 0) or None,
        output=course.whole(words, "output", 512),
        to_the_end=words.get("to-the-end") == "yes",
        salt=words.get("salt", ""),
        keep_going=keep_going,
    )


async def measure(server: BenchServer, options: Options, tell: Progress, *, ready: Ready = course.nothing) -> Run:
    """Cold greedy, cached greedy (where the server has a prefix cache), cold sampled.

    Raises ArcopsError for what cannot be asked at all; what fails on the way is in the run.
    """
    tokens = _length(server.facts, options)
    course.check_least(tokens, LEAST, "tokens")
    course.check_least(options.output, 1, "output")
    course.check_fits(server.facts, tokens, options.output, f"a prompt of {tokens:,} tokens")
    tell(f"cutting two prompts of {tokens:,} tokens")
    content = Content(server.tokenize, options.salt)
    salt = course.new_salt()

    async def item(name: str, size: int, output: int, how: Sampling) -> Item:
        prompt = await content.mixed(name, size)
        return Item(name, "mixed", prompt, output, how, to_the_end=options.to_the_end, cache_salt=salt)

    size, answer = min(tokens, _WARM_UP[0]), min(options.output, _WARM_UP[1])
    warm_up = [
        await item(f"warm-up-{word}", size, answer, how) for word, how in (("greedy", GREEDY), ("sampled", SAMPLED))
    ]
    cold = await item("cold-greedy", tokens, options.output, GREEDY)
    cached = Item("cached-greedy", cold.kind, cold.prompt, cold.max_tokens, GREEDY, cold.to_the_end, salt)
    sampled = await item("cold-sampled", tokens, options.output, SAMPLED)
    measured = [(cold, False), (sampled, False)]
    if keeps_prefixes(server.facts) is False:
        tell("the server keeps no prefix cache: cached-greedy is left out")
    else:
        measured.insert(1, (cached, True))
    planned = [
        Planned("warm-up", 0, (tuple(warm_up),)),
        *(Planned(one.name, 1, ((one,),), depth=tokens, warm=warm) for one, warm in measured),
    ]
    chosen = {
        "tokens": str(tokens),
        "output": str(options.output),
        "to-the-end": "yes" if options.to_the_end else "no",
        "salt": options.salt,
    }
    items = (*warm_up, *(one for one, _ in measured))
    work = workload(NAME, chosen, items)
    return await course.run(server, work, items, planned, tell, ready=ready, keep_going=options.keep_going)


def keeps_prefixes(facts: ServerFacts) -> bool | None:
    """Whether the server has a prefix cache; None where it does not say."""
    said = (facts.cache or {}).get(_CACHING)
    return None if said is None else {"True": True, "False": False}.get(said)


def _length(facts: ServerFacts, options: Options) -> int:
    if options.tokens is not None:
        return options.tokens
    longest = facts.max_model_len
    return REFERENCE if longest is None else min(REFERENCE, longest - options.output)
