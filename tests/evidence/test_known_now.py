"""What is known of a server only when its measurement has ended."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from arcops.core.evidence.setting import Configuration, ServerFacts
from arcops.evidence import fresh, measure
from arcops.evidence.setting import Server
from arcops.evidence.witness import Witness

_SOCKET = Path("/nowhere")
BEFORE = Configuration("daemon", profile="mine", launch_id="L1", argv=("vllm", "serve", "/m"))
RECORDED = replace(BEFORE, environment_digest="sha256:found")


def said(configuration: Configuration, *, recording: bool = False, by_daemon: bool = True) -> Server:
    return Server(configuration, (), by_daemon=by_daemon, recording=recording)


async def told(monkeypatch: pytest.MonkeyPatch, *looks: Server, ordered: bool = False) -> Configuration:
    """What is taken for known where one look after the other says this; the last one says it for ever."""
    left = list(looks)

    def known(_server: ServerFacts, _socket: Path | None) -> Server:
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(measure, "known", known)
    monkeypatch.setattr(fresh, "LOOK_EVERY", 0.001)
    watching = SimpleNamespace(known=said(BEFORE), ordered=ordered, setting=lambda: SimpleNamespace(server=None))
    return await measure.known_now(cast(Witness, watching), _SOCKET, lambda words: None)


@pytest.mark.asyncio
async def test_an_environment_that_is_still_being_recorded_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = said(BEFORE, recording=True)
    assert await told(monkeypatch, recording, recording, said(RECORDED)) == RECORDED


@pytest.mark.asyncio
async def test_one_that_cannot_be_recorded_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await told(monkeypatch, said(BEFORE)) == BEFORE


@pytest.mark.asyncio
async def test_one_that_is_never_recorded_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ENVIRONMENT_WITHIN", 0.02)
    assert await told(monkeypatch, said(BEFORE, recording=True)) == BEFORE


@pytest.mark.asyncio
async def test_another_launch_is_the_one_that_was_measured_only_where_the_run_ordered_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(RECORDED, launch_id="L2")
    assert await told(monkeypatch, said(other), ordered=True) == other
    assert await told(monkeypatch, said(other)) == BEFORE


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "after",
    [
        said(replace(RECORDED, profile="other")),
        said(replace(RECORDED, argv=("vllm", "serve", "/other"))),
        said(replace(RECORDED, source="process"), by_daemon=False),
    ],
)
async def test_another_server_is_not_what_was_measured(monkeypatch: pytest.MonkeyPatch, after: Server) -> None:
    assert await told(monkeypatch, after, ordered=True) == BEFORE
