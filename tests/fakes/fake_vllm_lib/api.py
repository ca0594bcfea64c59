"""vLLM's HTTP endpoints over the fake engine."""

import os
import time
from collections.abc import Callable, Iterator

from fake_vllm_lib.asked import Asked, RefusedError, Words, read
from fake_vllm_lib.completion import Teller
from fake_vllm_lib.engine import Engine
from fake_vllm_lib.flags import VERSION, Flags
from fake_vllm_lib.settings import Settings, SettingsError
from fake_vllm_lib.text import Tokenizer
from fake_vllm_lib.web import Call, Reply, json_reply

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
BROKEN = "it was asked to break"
DRAINING = "cannot schedule new futures after shutdown"
GUARDED = ("/v1", "/v2", "/inference", "/cohere")
GARBAGE = b"\x00\xff not metrics {{{ vllm:num_requests_running NaN NaN\n# TYPE \n\xfe" * 20

ROUTES = {
    "/health": "GET",
    "/ping": "GET",
    "/version": "GET",
    "/load": "GET",
    "/metrics": "GET",
    "/v1/models": "GET",
    "/tokenize": "POST",
    "/detokenize": "POST",
    "/v1/completions": "POST",
    "/v1/chat/completions": "POST",
    "/fake/misbehave": "POST",
}


def new_id(kind: str) -> str:
    return f"{kind}-{os.urandom(8).hex()}"


def refusal(status: int, kind: str, message: str, parameter: str | None = None) -> Reply:
    """An error in vLLM's form."""
    return json_reply({"error": {"message": message, "type": kind, "param": parameter, "code": status}}, status)


class Api:
    """Answers requests; the server tells it when it is draining."""

    def __init__(
        self,
        flags: Flags,
        names: tuple[str, ...],
        engine: Engine,
        tokenizer: Tokenizer,
        settings: Callable[[], Settings],
        misbehave: Callable[[dict[str, object]], None],
        hurry: Callable[[], None],
    ) -> None:
        """`misbehave` changes settings; `hurry` is called when a request meets a dead engine."""
        self._flags = flags
        self._names = names
        self._engine = engine
        self._tokenizer = tokenizer
        self._settings = settings
        self._misbehave = misbehave
        self._hurry = hurry
        self._longest = flags.max_model_len or 32768
        self.draining = False
        self._leak: list[bytes] = []

    def handle(self, call: Call) -> Reply:
        """The answer to one request."""
        if call.path.startswith(GUARDED) and not self._authorised(call):
            return json_reply({"error": "Unauthorized"}, 401)
        method = ROUTES.get(call.path)
        if method is None:
            return json_reply({"detail": "Not Found"}, 404)
        if call.method != method and not (call.path == "/ping" and call.method == "POST"):
            reply = json_reply({"detail": "Method Not Allowed"}, 405)
            reply.more = (("allow", method),)
            return reply
        if method == "GET":
            return self._get(call.path)
        return self._post(call)

    def _authorised(self, call: Call) -> bool:
        key = self._flags.api_key
        return not key or call.headers.get("authorization") == f"Bearer {key}"

    def _get(self, path: str) -> Reply:
        match path:
            case "/health" | "/ping":
                return Reply(self._settings().health_status or (503 if self._engine.dead else 200))
            case "/version":
                return json_reply({"version": VERSION})
            case "/load":
                return json_reply({"server_load": 0})
            case "/metrics":
                return self._metrics()
            case _:
                return json_reply({"object": "list", "data": [self._model(name) for name in self._names]})

    def _metrics(self) -> Reply:
        kind = "text/plain; version=1.0.0; charset=utf-8"
        if self._settings().metrics_status:
            return Reply(self._settings().metrics_status)
        if self._settings().metrics_garbage:
            return Reply(200, GARBAGE, kind)
        with self._engine.lock:
            self._engine.metrics.corrupted = self._settings().corrupted
            page = self._engine.metrics.render()
        for word in filter(None, self._settings().drop_counters.split(",")):
            page = "".join(line for line in page.splitlines(keepends=True) if word not in line)
        return Reply(200, page.encode(), kind)

    def _model(self, name: str) -> dict[str, object]:
        now = int(time.time())
        permission = {
            "id": new_id("modelperm"),
            "object": "model_permission",
            "created": now,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        return {
            "id": name,
            "object": "model",
            "created": now,
            "owned_by": "vllm",
            "root": self._flags.model,
            "parent": None,
            "max_model_len": self._longest,
            "permission": [permission],
        }

    def _post(self, call: Call) -> Reply:
        try:
            body = call.json()
        except ValueError:
            message = (
                "1 validation error:\n  {'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error', "
                "'input': {}, 'ctx': {'error': 'Expecting value'}}"
            )
            return refusal(400, "Bad Request", message, "body.0")
        try:
            match call.path:
                case "/fake/misbehave":
                    self._misbehave(body)
                    return json_reply({})
                case "/tokenize":
                    return self._tokenize(body)
                case "/detokenize":
                    tokens = body.get("tokens")
                    words = Words(self._tokenizer, self._longest)
                    return json_reply({"prompt": self._tokenizer.decode(words.numbers(tokens))})
                case "/ping":
                    return self._get(call.path)
                case _:
                    return self._complete(body, chat=call.path.endswith("chat/completions"))
        except RefusedError as error:
            return refusal(error.status, error.kind, str(error), error.parameter)
        except SettingsError as error:
            return refusal(400, "Bad Request", str(error))

    def _tokenize(self, body: dict[str, object]) -> Reply:
        tokens = Words(self._tokenizer, self._longest).prompt(body, chat="messages" in body)
        strings = [self._tokenizer.decode([token]) for token in tokens] if body.get("return_token_strs") else None
        return json_reply(
            {"count": len(tokens), "max_model_len": self._longest, "tokens": tokens, "token_strs": strings}
        )

    def _complete(self, body: dict[str, object], *, chat: bool) -> Reply:
        settings = self._settings()
        asked = read(body, chat, self._names, Words(self._tokenizer, self._longest), self._flags, settings)
        if self._engine.dead:
            self._hurry()
            return refusal(500, "InternalServerError", DEAD)
        if self.draining:
            return refusal(500, "InternalServerError", DRAINING)
        self._leak.append(b"\1" * (settings.leak_kib * 1024))
        for request in asked.requests:
            self._engine.submit(request)
        number = asked.requests[0].number
        if settings.error_every and number % settings.error_every == 0:
            self._abort(asked)
            return refusal(500, "InternalServerError", BROKEN)
        if asked.stream:
            cut = bool(settings.cut_every) and number % settings.cut_every == 0
            events = self._guarded(asked, settings.cut_after if cut else None)
            return Reply(200, kind="text/event-stream; charset=utf-8", events=events)
        try:
            reply = self._teller(asked).answer()
        finally:
            self._abort(asked)
        return refusal(500, "InternalServerError", DEAD) if reply is None else json_reply(reply)

    def _teller(self, asked: Asked) -> Teller:
        return Teller(asked, self._tokenizer, self._engine.block, lambda request: self._engine.end(request, "stop"))

    def _guarded(self, asked: Asked, cut_after: int | None) -> Iterator[str]:
        """The stream, with its requests taken out of the engine when the client goes away."""
        try:
            for count, event in enumerate(self._teller(asked).stream(DEAD)):
                if cut_after is not None and count >= cut_after:
                    raise ConnectionAbortedError
                yield event
        finally:
            self._abort(asked)

    def _abort(self, asked: Asked) -> None:
        for request in asked.requests:
            self._engine.end(request, "abort")
