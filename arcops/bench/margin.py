"""How near two tokens were: the question, and how vLLM's answer is read. Pure."""

from math import isnan
from typing import Final

import msgspec

from arcops.bench.stream import printable
from arcops.core.evidence.identity import Margin

LIKELIEST: Final = 20
"""Tokens whose log-probabilities are asked for: the most that vLLM gives by default (`--max-logprobs`)."""


class _Logprobs(msgspec.Struct):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None = None


class _Choice(msgspec.Struct):
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]


def question_of(model: str, ids: tuple[int, ...], oracle: int, other: int) -> dict[str, object]:
    """The body for the completions API. vLLM before 0.29 knows no `logprob_token_ids` and names the likeliest."""
    return {
        "model": model,
        "prompt": ids,
        "max_tokens": 1,
        "temperature": 0.0,
        "ignore_eos": True,
        "logprobs": LIKELIEST,
        "logprob_token_ids": [oracle, other],
        "return_tokens_as_token_ids": True,
    }


def margin_of(answer: bytes, oracle: int, other: int) -> Margin:
    """Both log-probabilities, as far as the server named them."""
    try:
        choices = msgspec.json.decode(answer, type=_Completion).choices
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Margin(None, None, f"the answer cannot be read: {printable(str(error))}")
    logprobs = choices[0].logprobs if choices else None
    if logprobs is None:
        return Margin(None, None, "the server gives no log-probabilities")
    named: dict[str, float] = {}
    if logprobs.tokens and logprobs.token_logprobs and logprobs.token_logprobs[0] is not None:
        named[logprobs.tokens[0]] = logprobs.token_logprobs[0]
    if logprobs.top_logprobs and logprobs.top_logprobs[0]:
        named |= logprobs.top_logprobs[0]
    found = [_number(named.get(f"token_id:{token}")) for token in (oracle, other)]
    missing = [str(token) for token, value in zip((oracle, other), found, strict=True) if value is None]
    words = f"not among the {len(named)} tokens that the server named: {' and '.join(missing)}" if missing else ""
    return Margin(found[0], found[1], words)


def _number(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value
