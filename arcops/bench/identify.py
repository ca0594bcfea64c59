"""Which model a server has, and how its plain answers are read."""

import contextlib
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from arcops.bench.http import Http, NoAnswerError
from arcops.bench.stream import Count, error_words, printable
from arcops.core.errors import ArcopsError, ExitCode

PATIENCE: Final = 90.0
"""Seconds for what is no measurement: under load vLLM's API server may answer nobody for a minute."""

_T = TypeVar("_T")


class Model(msgspec.Struct):
    """One of `/v1/models`."""

    id: str
    """The served name."""
    root: str | None = None
    """The checkpoint behind it."""
    max_model_len: Count | None = None


class _Models(msgspec.Struct):
    data: list[Model]


class _Version(msgspec.Struct):
    version: str


async def served(http: Http, wanted: str | None) -> Model:
    """The only model, or the one of this name. Raises ArcopsError where nobody answers, the key is refused, or it is
    not clear which is meant."""
    try:
        status, body = await http.get("/v1/models", within=PATIENCE)
    except NoAnswerError as error:
        raise ArcopsError(f"{http.url} does not answer: {error.message}", hint="is the server up?") from error
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise ArcopsError(f"{http.url} refuses the key (HTTP {status})", hint="give the server's API key")
    if status != HTTPStatus.OK:
        raise ArcopsError(f"{http.url}/v1/models: HTTP {status}: {error_words(body)}")
    return _chosen(decoded(body, _Models, "/v1/models").data, wanted)


def version_of(body: bytes | None) -> str | None:
    """Of `/version`; None where it does not say."""
    if body is not None:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            return printable(msgspec.json.decode(body, type=_Version).version)
    return None


def decoded(body: bytes, kind: type[_T], path: str) -> _T:
    """An answer of `path`. Raises ArcopsError where it cannot be read."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArcopsError(f"{path} says what cannot be read: {printable(str(error))}") from error


def _chosen(models: list[Model], wanted: str | None) -> Model:
    names = ", ".join(sorted(printable(one.id) for one in models))
    if not models:
        raise ArcopsError("the server has no model")
    if wanted is None and len(models) > 1:
        raise ArcopsError(
            f"the server has several models: {names}", hint="choose one with --model", exit_code=ExitCode.USAGE
        )
    for one in models:
        if wanted is None or one.id == wanted:
            return one
    raise ArcopsError(f"the server has no model {wanted}", hint=f"it has: {names}", exit_code=ExitCode.USAGE)
