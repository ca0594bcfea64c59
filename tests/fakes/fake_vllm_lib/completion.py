"""Completions: reading what was asked, and the JSON of answers and stream chunks in vLLM 0.29's form."""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from fake_vllm_lib.engine import Request
from fake_vllm_lib.flags import VERSION
from fake_vllm_lib.text import Tokenizer, chat_prompt

DEFAULT_TOKENS = 16
FINGERPRINT = f"vllm-{VERSION}-{os.urandom(4).hex()}"


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

    def __init__(self, model: str, chat: bool, requests: list[Request], body: dict[str, object]) -> None:
        self.model = model
        self.chat = chat
        self.requests = requests
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


class Words:
    """Reads prompts: text, chat messages, or token ids."""

    def __init__(self, tokenizer: Tokenizer, longest: int) -> None:
        self._tokenizer = tokenizer
        self.longest = longest

    def numbers(self, value: object) -> list[int]:
        items = cast("list[object]", value) if isinstance(value, list) else []
        return [item for item in items if isinstance(item, int)]

    def prompt(self, body: dict[str, object], *, chat: bool) -> list[int]:
        """The tokens of the one prompt of `body`."""
        return self.prompts(body, chat=chat)[0]

    def prompts(self, body: dict[str, object], *, chat: bool) -> list[list[int]]:
        if chat:
            return [self._tokenizer.encode(chat_prompt(self._messages(body)))]
        value = body.get("prompt")
        if isinstance(value, str) and value:
            return [self._tokenizer.encode(value)]
        if isinstance(value, list) and value:
            items = cast("list[object]", value)
            if isinstance(items[0], int):
                return [self.numbers(items)]
            return [self._tokenizer.encode(item) if isinstance(item, str) else self.numbers(item) for item in items]
        raise RefusedError(
            "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)", "prompt"
        )

    def _messages(self, body: dict[str, object]) -> list[tuple[str, str]]:
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


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def read(body: dict[str, object], chat: bool, names: Sequence[str], words: Words) -> Asked:
    """What `body` asks for; RefusedError with vLLM's status and text if it cannot be had."""
    model = str(body.get("model") or names[0])
    if model not in names:
        text = f"The model `{model}` does not exist."
        raise RefusedError(text, "model", status=404, kind="NotFoundError")
    prompts = words.prompts(body, chat=chat)
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    if body.get("max_tokens") == 0:
        raise RefusedError("max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens")
    requests: list[Request] = []
    for prompt in prompts:
        room = words.longest - len(prompt)
        tokens = wanted if isinstance(wanted, int) else (room if chat else DEFAULT_TOKENS)
        if tokens > words.longest:
            raise RefusedError(
                f"max_tokens={tokens} cannot be greater than max_model_len=max_total_tokens={words.longest}. Please "
                f"request fewer output tokens. (parameter=max_tokens, value={tokens})",
                "max_tokens",
            )
        if tokens > room or room < 1:
            raise RefusedError(
                f"This model's maximum context length is {words.longest} tokens. However, you requested {tokens} "
                f"output tokens and your prompt contains at least {len(prompt)} input tokens, for a total of at "
                f"least {len(prompt) + tokens} tokens. Please reduce the length of the input prompt or the number of "
                f"requested output tokens. (parameter=input_tokens, value={len(prompt)})",
                "input_tokens",
            )
        requests.append(Request(prompt, tokens))
    return Asked(model, chat, requests, body)


class Piece:
    """Some text of one choice, its tokens, and why it ended if it did."""

    def __init__(self, text: str, tokens: list[int], finish: str | None, stop: str | None) -> None:
        self.text = text
        self.tokens = tokens
        self.finish = finish
        self.stop = stop


def _pieces(asked: Asked, request: Request, tokenizer: Tokenizer, end: Callable[[Request], None]) -> Iterator[Piece]:
    """The output of one request as it comes, cut before a stop word."""
    text = ""
    while True:
        output = request.outputs.get()
        fresh = tokenizer.decode(output.tokens)
        for word in asked.stop:
            at = (text + fresh).find(word)
            if at >= 0:
                end(request)
                yield Piece((text + fresh)[len(text) : max(at, len(text))], output.tokens, "stop", word)
                return
        text += fresh
        yield Piece(fresh, output.tokens, output.finish, None)
        if output.finish is not None:
            return


def answer(asked: Asked, tokenizer: Tokenizer, end: Callable[[Request], None]) -> dict[str, object] | None:
    """The whole answer at once; None if the engine died meanwhile."""
    choices: list[dict[str, object]] = []
    for index, request in enumerate(asked.requests):
        pieces = list(_pieces(asked, request, tokenizer, end))
        if pieces[-1].finish == "error":
            return None
        choices.append(_choice(asked, index, request, pieces))
    first = asked.requests[0]
    reply = asked.head("chat.completion" if asked.chat else "text_completion") | {
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": asked.counts() | {"prompt_tokens_details": None, "completion_tokens_details": None},
    }
    if asked.chat:
        ids = first.prompt if asked.token_ids else None
        reply |= {"prompt_logprobs": None, "prompt_token_ids": ids, "prompt_text": None}
    return reply | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}


def _choice(asked: Asked, index: int, request: Request, pieces: list[Piece]) -> dict[str, object]:
    text = "".join(piece.text for piece in pieces)
    last = pieces[-1]
    ids = [token for piece in pieces for token in piece.tokens] if asked.token_ids else None
    choice: dict[str, object] = {"index": index}
    if asked.chat:
        nothing = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
        choice["message"] = {"role": "assistant", "content": text, **nothing}
    else:
        choice["text"] = text
    choice |= {"logprobs": None, "finish_reason": last.finish, "stop_reason": last.stop, "token_ids": ids}
    if not asked.chat:
        choice |= {"prompt_logprobs": None, "prompt_token_ids": request.prompt if asked.token_ids else None}
    return choice | {"routed_experts": None}


def stream(asked: Asked, tokenizer: Tokenizer, end: Callable[[Request], None], dead: str) -> Iterator[str]:
    """The data of the events; one prompt after the other. `dead` is the error of an engine that died."""
    for index, request in enumerate(asked.requests):
        first = True
        for piece in _pieces(asked, request, tokenizer, end):
            if piece.finish == "error":
                error = {"message": dead, "type": "InternalServerError", "param": None, "code": 500}
                yield _compact({"error": error})
                yield "[DONE]"
                return
            if first and asked.chat:
                yield _compact(_opening(asked, index, request))
            yield _compact(_chunk(asked, index, request, piece, first))
            first = False
    if asked.usage:
        kind = "chat.completion.chunk" if asked.chat else "text_completion"
        tail: dict[str, object] = {"choices": [], "usage": asked.counts(), "system_fingerprint": FINGERPRINT}
        yield _compact(asked.head(kind) | tail)
    yield "[DONE]"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _opening(asked: Asked, index: int, request: Request) -> dict[str, object]:
    """The first chunk of a chat: the role, and nothing said yet."""
    delta = {"role": "assistant", "content": ""}
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
    ids = {"prompt_token_ids": request.prompt if asked.token_ids else None, "prompt_text": None}
    return asked.head("chat.completion.chunk") | {"choices": [choice]} | ids


def _chunk(asked: Asked, index: int, request: Request, piece: Piece, first: bool) -> dict[str, object]:
    choice: dict[str, object] = {"index": index}
    choice |= {"delta": {"content": piece.text}} if asked.chat else {"text": piece.text}
    choice |= {"logprobs": None, "finish_reason": piece.finish}
    if not asked.chat:
        choice |= {"stop_reason": piece.stop, "prompt_token_ids": None}
        if asked.token_ids and first:
            choice["prompt_token_ids"] = request.prompt
    elif piece.finish is not None:
        choice["stop_reason"] = piece.stop
    choice["token_ids"] = piece.tokens if asked.token_ids else None
    chunk = asked.head("chat.completion.chunk" if asked.chat else "text_completion") | {"choices": [choice]}
    if asked.usage_always:
        chunk["usage"] = asked.counts()
    if piece.finish is not None and not asked.usage:
        chunk["system_fingerprint"] = FINGERPRINT
    return chunk
