"""Completions and chats: reading what was asked, and refusing what vLLM refuses."""

import os
import time
import zlib
from collections.abc import Sequence
from typing import cast

from fake_vllm_lib.chat import Playwright, Script, chat_prompt, thinks
from fake_vllm_lib.flags import Flags
from fake_vllm_lib.sequence import Request
from fake_vllm_lib.settings import Settings
from fake_vllm_lib.text import VOCABULARY, Tokenizer
from fake_vllm_lib.tools import functions, inner

DEFAULT_TOKENS = 16


class RefusedError(Exception):
    """A request that vLLM answers with an error."""

    def __init__(
        self, message: str, parameter: str | None, *, status: int = 400, kind: str = "BadRequestError"
    ) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.status = status
        self.kind = kind


class Asked:
    """A completion that was asked for: one request to the engine for each prompt."""

    def __init__(
        self,
        model: str,
        chat: bool,
        requests: list[Request],
        body: dict[str, object],
        script: Script | None,
        flags: Flags,
    ) -> None:
        self.model = model
        self.chat = chat
        self.requests = requests
        self.script = script
        self.details = "enable-prompt-tokens-details" in flags.switches
        self.reasons = chat and bool(flags.values.get("reasoning-parser"))
        self.thinks = self.reasons and thinks(body, flags)
        self.logprobs = _likeliest(body, chat)
        self.watched = [one for one in _list(body.get("logprob_token_ids")) if isinstance(one, int)]
        self.by_id = bool(body.get("return_tokens_as_token_ids"))
        self.stream = bool(body.get("stream"))
        options = body.get("stream_options")
        given = cast("dict[str, object]", options) if isinstance(options, dict) else {}
        self.usage = bool(given.get("include_usage"))
        self.usage_always = bool(given.get("continuous_usage_stats"))
        self.token_ids = bool(body.get("return_token_ids"))
        self.stop = _strings(body.get("stop"))
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{os.urandom(8).hex()}"
        self.created = int(time.time())

    def head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def counts(self) -> dict[str, object]:
        prompt = sum(len(request.prompt) for request in self.requests)
        produced = sum(request.produced for request in self.requests)
        return {"prompt_tokens": prompt, "total_tokens": prompt + produced, "completion_tokens": produced}

    def details_of_prompt(self, block: int) -> dict[str, object] | None:
        """What the server says of the prefix cache, where it was told to."""
        if not self.details:
            return None
        first = self.requests[0]
        created = len(first.prompt) // block * block - first.cached if self.chat else None
        cached = sum(request.cached for request in self.requests)
        return {"cached_tokens": cached, "created_cache_tokens": created if created is None else max(0, created)}

    def details_of_answer(self) -> dict[str, object] | None:
        """How much of a chat was thought, where the server has a parser for it."""
        if not self.reasons:
            return None
        places = self.script.places if self.script else []
        thought = places[: self.requests[0].produced].count("reasoning")
        return {"reasoning_tokens": thought}


class Words:
    """Reads prompts: text, chat messages, or token ids."""

    def __init__(self, tokenizer: Tokenizer, longest: int) -> None:
        self.tokenizer = tokenizer
        self.longest = longest

    def numbers(self, value: object) -> list[int]:
        items = cast("list[object]", value) if isinstance(value, list) else []
        return [item for item in items if isinstance(item, int)]

    def prompt(self, body: dict[str, object], *, chat: bool) -> list[int]:
        """The tokens of the one prompt of `body`."""
        return self.prompts(body, chat=chat)[0]

    def prompts(self, body: dict[str, object], *, chat: bool) -> list[list[int]]:
        if chat:
            return [self.tokenizer.encode(chat_prompt(self.messages(body), body))]
        value = body.get("prompt")
        if isinstance(value, str) and value:
            return [self.tokenizer.encode(value)]
        if isinstance(value, list) and value:
            items = cast("list[object]", value)
            if isinstance(items[0], int):
                return [self.numbers(items)]
            return [self.tokenizer.encode(item) if isinstance(item, str) else self.numbers(item) for item in items]
        raise RefusedError(
            "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)", "prompt"
        )

    def messages(self, body: dict[str, object]) -> list[tuple[str, str]]:
        given = body.get("messages")
        if not isinstance(given, list):
            raise RefusedError(
                f"1 validation error:\n  {{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', "
                f"'input': {body!r}}}",
                "body.messages",
                kind="Bad Request",
            )
        messages = [cast("dict[str, object]", item) for item in cast("list[object]", given) if isinstance(item, dict)]
        return [(str(message.get("role")), _content(message.get("content"))) for message in messages]


def _content(value: object) -> str:
    if isinstance(value, list):
        parts = [cast("dict[str, object]", part) for part in cast("list[object]", value) if isinstance(part, dict)]
        return "".join(str(part.get("text", "")) for part in parts)
    return str(value)


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _likeliest(body: dict[str, object], chat: bool) -> int | None:
    """How many likely tokens are asked for with each token; None for no log-probabilities at all."""
    given = body.get("logprobs")
    if chat:
        given = body.get("top_logprobs", 0) if given else None
    return None if given is None or given is False else int(given) if isinstance(given, int) else 0


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def read(
    body: dict[str, object], chat: bool, names: Sequence[str], words: Words, flags: Flags, settings: Settings
) -> Asked:
    """What `body` asks for; RefusedError with vLLM's status and text if it cannot be had."""
    model = str(body.get("model") or names[0])
    if model not in names:
        text = f"The model `{model}` does not exist."
        raise RefusedError(text, "model", status=404, kind="NotFoundError")
    prompts = words.prompts(body, chat=chat)
    if chat:
        _check_chat(body, model, flags, settings)
    if body.get("max_tokens") == 0:
        raise RefusedError("max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens")
    script = Playwright(words.tokenizer, flags, settings).write(body, words.messages(body)) if chat else None
    requests: list[Request] = []
    for prompt in prompts:
        request = Request(
            prompt,
            _tokens(body, prompt, words.longest, chat),
            salt=_salt(body),
            script=None if script is None else script.tokens,
            to_the_end=bool(body.get("ignore_eos")),
            cache_salt=str(body.get("cache_salt") or ""),
        )
        requests.append(request)
    return Asked(model, chat, requests, body, script, flags)


def _check_chat(body: dict[str, object], model: str, flags: Flags, settings: Settings) -> None:
    messages = [inner(message) for message in _list(body.get("messages"))]
    parts = [inner(part) for message in messages for part in _list(message.get("content"))]
    if any(part.get("type") == "image_url" for part in parts) and not settings.multimodal:
        raise RefusedError(f"{model} is not a multimodal model", None)
    if not body.get("tools"):
        return
    choice = body.get("tool_choice", "auto")
    named = inner(inner(choice).get("function")).get("name")
    able = "enable-auto-tool-choice" in flags.switches and flags.values.get("tool-call-parser")
    if not able and choice not in (None, "none"):
        what = f'function "{named}"' if named is not None else f'"{choice}"'
        raise RefusedError(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            if choice == "auto"
            else f"tool_choice={what} requires --tool-call-parser to be set",
            None,
        )
    if named is not None and named not in [one.get("name") for one in functions(body)]:
        raise RefusedError(
            "The tool specified in `tool_choice` does not match any of the specified `tools` (parameter=tool_choice)",
            "tool_choice",
        )


def _salt(body: dict[str, object]) -> int:
    """What makes an answer another one than the greedy one: 0 without a temperature; the same for the same seed."""
    temperature, seed = body.get("temperature"), body.get("seed")
    if not isinstance(temperature, int | float) or temperature <= 0:
        return 0
    text = os.urandom(8).hex() if seed is None else f"{seed} {float(temperature)} {body.get('top_p')}"
    return zlib.crc32(text.encode()) or 1


def _tokens(body: dict[str, object], prompt: list[int], longest: int, chat: bool) -> int:
    """The most tokens of an answer."""
    for token in prompt:
        if not 0 <= token < VOCABULARY:
            raise RefusedError(f"Token id {token} is out of vocabulary", None)
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    room = longest - len(prompt)
    tokens = wanted if isinstance(wanted, int) else (room if chat else DEFAULT_TOKENS)
    if tokens > longest:
        raise RefusedError(
            f"max_tokens={tokens} cannot be greater than max_model_len=max_total_tokens={longest}. Please "
            f"request fewer output tokens. (parameter=max_tokens, value={tokens})",
            "max_tokens",
        )
    if tokens > room or room < 1:
        raise RefusedError(
            f"This model's maximum context length is {longest} tokens. However, you requested {tokens} "
            f"output tokens and your prompt contains at least {len(prompt)} input tokens, for a total of at "
            f"least {len(prompt) + tokens} tokens. Please reduce the length of the input prompt or the number of "
            f"requested output tokens. (parameter=input_tokens, value={len(prompt)})",
            "input_tokens",
        )
    return tokens
