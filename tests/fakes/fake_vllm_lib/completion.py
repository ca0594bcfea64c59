"""The JSON of answers and stream chunks in vLLM 0.29's form."""

import codecs
import json
import os
from collections.abc import Callable, Iterator

from fake_vllm_lib.asked import Asked
from fake_vllm_lib.chat import ARGUMENTS, CONTENT, HEAD, REASONING
from fake_vllm_lib.flags import VERSION
from fake_vllm_lib.sequence import Request
from fake_vllm_lib.text import UNLIKELY, Tokenizer
from fake_vllm_lib.tools import inner

FINGERPRINT = f"vllm-{VERSION}-{os.urandom(4).hex()}"
REFUSED: dict[str, object] = {"refusal": None, "annotations": None, "audio": None, "function_call": None}


class Piece:
    """Some text of one choice, its tokens, and why it ended if it did."""

    def __init__(self, text: str, tokens: list[int], finish: str | None, stop: str | None, at: int) -> None:
        """`at` is the number of tokens before it."""
        self.text = text
        self.tokens = tokens
        self.finish = finish
        self.stop = stop
        self.at = at


class Teller:
    """Tells the answer of one engine to one asker; `end` takes a request out of the engine."""

    def __init__(self, asked: Asked, tokenizer: Tokenizer, block: int, end: Callable[[Request], None]) -> None:
        self._asked = asked
        self._tokenizer = tokenizer
        self._block = block
        self._end = end
        self._readers: dict[str, codecs.IncrementalDecoder] = {}

    def answer(self) -> dict[str, object] | None:
        """The whole answer at once; None if the engine died meanwhile."""
        asked = self._asked
        choices: list[dict[str, object]] = []
        for index, request in enumerate(asked.requests):
            pieces = list(self._pieces(request))
            if pieces[-1].finish == "error":
                return None
            choices.append(self._choice(index, request, pieces))
        first = asked.requests[0]
        prompt = asked.details_of_prompt(self._block)
        usage = asked.counts() | {
            "prompt_tokens_details": prompt and prompt | {"multimodal_tokens": None},
            "completion_tokens_details": asked.details_of_answer(),
        }
        reply = asked.head("chat.completion" if asked.chat else "text_completion") | {
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": usage,
        }
        if asked.chat:
            ids = first.prompt if asked.token_ids else None
            reply |= {"prompt_logprobs": None, "prompt_token_ids": ids, "prompt_text": None}
        return reply | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}

    def stream(self, dead: str) -> Iterator[str]:
        """The data of the events; one prompt after the other. `dead` is the error of an engine that died."""
        asked = self._asked
        for index, request in enumerate(asked.requests):
            first = True
            for piece in self._pieces(request):
                if piece.finish == "error":
                    error = {"message": dead, "type": "InternalServerError", "param": None, "code": 500}
                    yield _compact({"error": error})
                    yield "[DONE]"
                    return
                if first and asked.chat:
                    yield _compact(self._opening(index, request))
                for chunk in self._chunks(index, request, piece, first):
                    yield _compact(chunk)
                first = False
        if asked.usage:
            kind = "chat.completion.chunk" if asked.chat else "text_completion"
            usage: dict[str, object] = {"choices": [], "usage": self._usage(), "system_fingerprint": FINGERPRINT}
            yield _compact(asked.head(kind) | usage)
        yield "[DONE]"

    def _pieces(self, request: Request) -> Iterator[Piece]:
        """The output of one request as it comes, cut before a stop word."""
        text, count = "", 0
        reader = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            output = request.outputs.get()
            fresh = reader.decode(self._tokenizer.bytes_of(output.tokens), final=output.finish is not None)
            for word in self._asked.stop:
                at = (text + fresh).find(word)
                if at >= 0:
                    self._end(request)
                    cut = (text + fresh)[len(text) : max(at, len(text))]
                    yield Piece(cut, output.tokens, "stop", word, count)
                    return
            text = text + fresh if self._asked.stop else ""
            yield Piece(fresh, output.tokens, output.finish, None, count)
            count += len(output.tokens)
            if output.finish is not None:
                return

    def _usage(self) -> dict[str, object]:
        """What a stream says at its end: without what there is nothing to say of."""
        details = {"prompt_tokens_details": self._asked.details_of_prompt(self._block)}
        found = self._asked.counts() | details | {"completion_tokens_details": self._asked.details_of_answer()}
        return {name: _without_none(value) for name, value in found.items() if value is not None}

    # Whole answers

    def _choice(self, index: int, request: Request, pieces: list[Piece]) -> dict[str, object]:
        asked, last = self._asked, pieces[-1]
        tokens = [token for piece in pieces for token in piece.tokens]
        finish = last.finish
        choice: dict[str, object] = {"index": index}
        if asked.chat:
            choice["message"] = message = self._message(pieces, tokens, complete=finish == "stop")
            finish = self._finish_of_call() if "tool_calls" in message else finish
        else:
            choice["text"] = "".join(piece.text for piece in pieces)
        choice |= {"logprobs": self._logprobs(request, tokens, 0), "finish_reason": finish, "stop_reason": last.stop}
        choice["token_ids"] = tokens if asked.token_ids else None
        if not asked.chat:
            choice |= {"prompt_logprobs": None, "prompt_token_ids": request.prompt if asked.token_ids else None}
        return choice | {"routed_experts": None}

    def _message(self, pieces: list[Piece], tokens: list[int], *, complete: bool) -> dict[str, object]:
        script = self._asked.script
        if script is None:
            text = "".join(piece.text for piece in pieces)
            return {"role": "assistant", "content": text, **REFUSED, "reasoning": None}
        told = self._told(tokens, 0)
        thought = told.pop(REASONING, "") or None
        if script.name and complete:
            call = {
                "id": _call_id(),
                "type": "function",
                "function": {"name": script.name, "arguments": told[ARGUMENTS]},
            }
            text = "" if script.by_choice else None
            return {"role": "assistant", "content": text, **REFUSED, "tool_calls": [call], "reasoning": thought}
        content = "".join(told.values()) or (None if thought else "")
        return {"role": "assistant", "content": content, **REFUSED, "reasoning": thought}

    def _finish_of_call(self) -> str:
        script = self._asked.script
        return "stop" if script is not None and script.named else "tool_calls"

    def _told(self, tokens: list[int], at: int) -> dict[str, str]:
        """The text of these tokens by the place where it goes."""
        return {place: self._tokenizer.decode(group) for place, group in self._placed(tokens, at).items()}

    def _placed(self, tokens: list[int], at: int) -> dict[str, list[int]]:
        """These tokens by the place where they go; what comes after the script is content."""
        script = self._asked.script
        places = script.places[at : at + len(tokens)] if script else []
        places += [CONTENT] * (len(tokens) - len(places))
        groups: dict[str, list[int]] = {}
        for token, place in zip(tokens, places, strict=True):
            groups.setdefault(place, []).append(token)
        return groups

    def _continued(self, piece: Piece) -> dict[str, str]:
        """The text of a piece by its place: a character that ends in the next one is told there."""
        told: dict[str, str] = {}
        for place, tokens in self._placed(piece.tokens, piece.at).items():
            reader = self._readers.setdefault(place, codecs.getincrementaldecoder("utf-8")("replace"))
            told[place] = reader.decode(self._tokenizer.bytes_of(tokens))
        return told

    # Streams

    def _opening(self, index: int, request: Request) -> dict[str, object]:
        """The first chunk of a chat: the role, and nothing said yet."""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        ids = {"prompt_token_ids": request.prompt if self._asked.token_ids else None, "prompt_text": None}
        return self._asked.head("chat.completion.chunk") | {"choices": [choice]} | ids

    def _chunks(self, index: int, request: Request, piece: Piece, first: bool) -> Iterator[dict[str, object]]:
        if not self._asked.chat:
            yield self._chunk(index, request, piece, {"text": piece.text}, first=first, last=True)
            return
        said: dict[str, object] = {"content": piece.text}
        deltas = [said] if self._asked.script is None else self._deltas(piece)
        if not deltas and (piece.finish is not None or self._asked.token_ids):
            nothing: dict[str, object] = {}
            deltas = [nothing]
        for at, delta in enumerate(deltas):
            yield self._chunk(index, request, piece, {"delta": delta}, first=at == 0, last=at == len(deltas) - 1)

    def _deltas(self, piece: Piece) -> list[dict[str, object]]:
        """What a piece of a script adds to the message."""
        script = self._asked.script
        told = self._continued(piece)
        deltas: list[dict[str, object]] = []
        if told.get(REASONING):
            deltas.append({"reasoning": told[REASONING]})
        if told.get(CONTENT):
            deltas.append({"content": told[CONTENT]})
        if script is not None and script.name:
            last = len(script.places) - 1 - script.places[::-1].index(HEAD)
            if piece.at <= last < piece.at + len(piece.tokens):
                call = {"id": _call_id(), "type": "function", "index": 0, "function": {"name": script.name}}
                deltas.append({"content": None, "tool_calls": [call]})
            if told.get(ARGUMENTS):
                more = {"index": 0, "function": {"arguments": told[ARGUMENTS]}}
                deltas.append({"content": None, "tool_calls": [more]})
        return deltas

    def _chunk(
        self, index: int, request: Request, piece: Piece, said: dict[str, object], *, first: bool, last: bool
    ) -> dict[str, object]:
        asked = self._asked
        called = asked.script is not None and asked.script.name and piece.finish == "stop"
        finish = (self._finish_of_call() if called else piece.finish) if last else None
        tokens = piece.tokens if first or not asked.chat else []
        choice: dict[str, object] = {"index": index} | said
        choice |= {"logprobs": self._logprobs(request, tokens, piece.at), "finish_reason": finish}
        if not asked.chat:
            choice |= {"stop_reason": piece.stop, "prompt_token_ids": None}
            if asked.token_ids and first:
                choice["prompt_token_ids"] = request.prompt
        elif finish is not None:
            choice["stop_reason"] = piece.stop
        choice["token_ids"] = tokens if asked.token_ids else None
        chunk = asked.head("chat.completion.chunk" if asked.chat else "text_completion") | {"choices": [choice]}
        if asked.usage_always:
            chunk["usage"] = asked.counts()
        if finish is not None and not asked.usage:
            chunk["system_fingerprint"] = FINGERPRINT
        return chunk

    # Log-probabilities

    def _logprobs(self, request: Request, tokens: list[int], at: int) -> dict[str, object] | None:
        count = self._asked.logprobs
        if count is None:
            return None
        if at == 0:
            request.told = self._tokenizer.begin(request.prompt, request.salt)
            request.offset = 0
        found: list[tuple[int, float, dict[int, float]]] = []
        for token in tokens:
            likely = self._tokenizer.likelihoods(request.told, count)
            own = likely.get(token, UNLIKELY)
            others = self._asked.watched or list(likely)[:count]
            found.append((token, own, {token: own} | {one: likely.get(one, UNLIKELY) for one in others}))
            request.told = self._tokenizer.onward(request.told, token)
        return self._of_chat(found) if self._asked.chat else self._of_completion(request, found)

    def _of_completion(self, request: Request, found: list[tuple[int, float, dict[int, float]]]) -> dict[str, object]:
        offsets: list[int] = []
        for token, _, _ in found:
            offsets.append(request.offset)
            request.offset += len(self._name(token))
        return {
            "text_offset": offsets,
            "token_logprobs": [own for _, own, _ in found],
            "tokens": [self._name(token) for token, _, _ in found],
            "top_logprobs": [{self._name(one): value for one, value in top.items()} for _, _, top in found],
        }

    def _of_chat(self, found: list[tuple[int, float, dict[int, float]]]) -> dict[str, object]:
        return {
            "content": [
                self._entry(token, own) | {"top_logprobs": [self._entry(one, value) for one, value in top.items()]}
                for token, own, top in found
            ]
        }

    def _entry(self, token: int, value: float) -> dict[str, object]:
        return {"token": self._name(token), "logprob": value, "bytes": list(self._tokenizer.bytes_of([token]))}

    def _name(self, token: int) -> str:
        return f"token_id:{token}" if self._asked.by_id else self._tokenizer.decode([token])


def _call_id() -> str:
    return f"chatcmpl-tool-{os.urandom(8).hex()}"


def _without_none(value: object) -> object:
    given = inner(value)
    return {name: one for name, one in given.items() if one is not None} if given else value


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
