"""docs/control-api.md, taken at its word: its commands are run, its messages decoded, its tables compared."""

import re
import shutil
import subprocess
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import cast

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from arcops import wire
from arcops.core.phase import Phase
from arcops.daemon import routes, server
from tests.daemon.raw import ask, post
from tests.daemon.rig import Rig
from tests.helpers import cannot_run_here, eventually

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "control-api.md"
_BLOCK = re.compile(r"^```(\w+) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@cache
def blocks(language: str) -> list[tuple[str, str]]:
    """What the document has in this language: (word after it, text)."""
    return [(word, text) for found, word, text in _BLOCK.findall(DOCUMENT.read_text()) if found == language]


def command(part: str) -> str:
    """The one example whose text has `part`."""
    found = [text for _, text in blocks("sh") if part in text]
    assert len(found) == 1, f"{len(found)} examples have {part!r}"
    return found[0]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    """The instance that the document speaks of."""
    if shutil.which("curl") is None:
        cannot_run_here("there is no curl")
    with Rig(tmp_path_factory.mktemp("examples"), instance="main") as one:
        yield one.start()


def run(rig: Rig, example: str) -> str:
    """An example as a reader would run it, after the first one, which sets ARCOPS."""
    done = subprocess.run(
        ["bash", "-euc", script(example)], env=rig.env(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (example, done.stdout, done.stderr)
    assert done.stdout, example
    return done.stdout


def first_event(rig: Rig, example: str) -> str:
    """The first message of a stream that an example opens, and that nothing but its reader ends."""
    words = ["bash", "-euc", script(example).replace("curl", "exec curl")]
    with subprocess.Popen(words, env=rig.env(), stdout=subprocess.PIPE, text=True) as stream:
        assert stream.stdout is not None
        line = stream.stdout.readline()
        stream.terminate()
    assert line.startswith("data: "), example
    return line.removeprefix("data: ")


def script(example: str) -> str:
    return blocks("sh")[0][1].splitlines()[0] + "\n" + example


@pytest.mark.processes
def test_every_command_does_what_it_says(rig: Rig) -> None:
    used = {
        "v1/ping": msgspec.json.decode(run(rig, command("v1/ping")), type=wire.Pong).pid,
        "dry_run": msgspec.json.decode(run(rig, command('"dry_run"')), type=wire.Accepted).plan,
    }
    assert all(used.values())
    order = msgspec.json.decode(run(rig, command('"drain": 60')), type=wire.Accepted)
    assert order.order_id is not None
    rig.wait_for("serving")
    settled = run(rig, command('"settled"'))
    assert f'"order_id":{order.order_id},"exit_code":0' in settled
    status = msgspec.json.decode(run(rig, command("v1/status")), type=wire.Status)
    assert (status.phase, status.order.profile) == ("serving", "dflash2")
    assert msgspec.json.decode(run(rig, command("events?after=-20")), type=wire.Events).events
    eventually(lambda: msgspec.json.decode(run(rig, command("v1/history")), type=wire.History).points, why="no history")
    assert msgspec.json.decode(run(rig, command("v1/samples")), type=wire.Samples).points
    assert msgspec.json.decode(run(rig, command("of=supervisor")), type=wire.LogLines).lines
    assert msgspec.json.decode(run(rig, command("v1/profiles")), type=wire.Profiles).running
    assert msgspec.json.decode(run(rig, command("v1/cards")), type=wire.Cards).watching
    assert msgspec.json.decode(run(rig, command("v1/environment")), type=wire.EnvironmentPage).info is not None
    assert msgspec.json.decode(run(rig, command("logs?lines=50")), type=wire.LogLines).lines
    streams = {command("/v1/stream\n"): wire.Status, command("follow=1&after"): wire.Event}
    for example, kind in {**streams, command("follow=1&lines"): wire.LogLines}.items():
        assert msgspec.json.decode(first_event(rig, example), type=kind)
    names = {family.name for family in text_string_to_metric_families(run(rig, command("/metrics")))}
    assert {"arcops_phase", "arcops_phase_code", "arcops_backend_processes"} <= names
    assert msgspec.json.decode(run(rig, command("v1/stop")), type=wire.Accepted).order_id
    rig.wait_for("stopped")
    assert len(blocks("sh")) == 18, "an example that is not run here"


@pytest.mark.processes
def test_every_path_is_in_the_document_and_there_are_no_others(rig: Rig) -> None:
    documented = set(re.findall(r"^\| `((?:GET|POST) /[\w/-]+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    for path in documented:
        method, _, target = path.partition(" ")
        answer = ask(rig.paths.socket, target) if method == "GET" and target != "/v1/stream" else None
        assert answer is None or answer.status == 200, path
    assert post(rig.paths.socket, "/v1/switch", b"{}").status == 400
    served = routes.Api.app(routes.Api("main", 0, *[None] * 9)).routes  # pyright: ignore[reportArgumentType] - never called
    assert documented == {
        f"{'POST' if 'POST' in (route.methods or ()) else 'GET'} {route.path}"
        for route in served
        if isinstance(route, Route)
    }


@pytest.mark.parametrize(("name", "text"), blocks("json"), ids=[name for name, _ in blocks("json")])
def test_every_message_is_shown_whole_and_as_it_is(name: str, text: str) -> None:
    kind: type[msgspec.Struct] = getattr(wire, name)
    message = msgspec.json.decode(text, type=kind, strict=True)
    assert keys(msgspec.json.decode(text)) == keys(msgspec.json.decode(wire.encode(message)))


def keys(value: object, at: str = "$") -> set[str]:
    """Every key path of a JSON document."""
    if isinstance(value, dict):
        found = cast("dict[str, object]", value)
        return {one for key, inner in found.items() for one in (f"{at}.{key}", *keys(inner, f"{at}.{key}"))}
    if isinstance(value, list):
        return {one for inner in cast("list[object]", value) for one in keys(inner, f"{at}[]")}
    return set()


def test_every_message_that_goes_by_itself_is_shown() -> None:
    shown = {name for name, _ in blocks("json")}
    # A plan is what `arcops plan --json` prints, and docs/plan.md shows it.
    inside = {"Message", "Event", "PlanInfo"}
    kinds = {kind.__name__ for kind in wire.Message.__subclasses__()}
    assert kinds - shown <= inside


def test_phases_and_limits_are_the_codes() -> None:
    text = " ".join(DOCUMENT.read_text().split())
    assert ", ".join(f"{phase.code} {phase.value}" for phase in Phase) in text
    assert f"{routes.LARGEST_BODY} bytes and {routes.BODY_WITHIN:g} seconds" in text
    assert f"no request comes within {server.REQUEST_WITHIN:g} seconds" in text
