"""`arcops soak` in this process, against the fake: what it prints, what it says beside, and how it ends."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arcops.bench.soak import work
from arcops.core.errors import ExitCode
from arcops.evidence import shelf
from tests.cli.conftest import Ran
from tests.fakes.runtime import fake_model, fake_vllm_path
from tests.fakes.serving import Serving
from tests.helpers import free_port
from tests.sites import MadeUpSite

Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One without a tool parser."""
    folder: Path = tmp_path_factory.mktemp("soak")
    port = free_port()
    flags = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny", "--max-model-len", "4096")
    argv = (fake_vllm_path(), "serve", fake_model(folder / "model"), *flags)
    environment = {"FAKE_VLLM_START_SECONDS": "0.05", "FAKE_VLLM_DECODE_SPEED": "2000"}
    with Serving(argv, port, folder / "log", environment) as started:
        yield started.wait_ready()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that hardly think."""
    monkeypatch.setattr(work, "THINK", 0.02)


@pytest.mark.processes
def test_json_alone_goes_to_stdout_and_what_was_left_out_to_stderr(
    server: Serving, site: MadeUpSite, arcops: Run, tmp_path: Path
) -> None:
    place = tmp_path / "soak.json"
    ran = arcops("soak", "--url", server.url, "--for", "1s", "--clients", "3", "--json", "--to", str(place))
    assert ran.code == ExitCode.DONE, ran.err
    said = json.loads(ran.out)
    assert (said["record"], said["clean"], said["interrupted"]) == (str(place), True, False)
    verdicts = {gate["name"]: gate["verdict"] for gate in said["gates"]}
    assert verdicts["errors"] == "passed"
    assert verdicts["tools"] == "skipped"
    assert "tools are left out: HTTP 400" in ran.err

    kept = shelf.read(place)
    assert kept.digest == said["digest"]
    assert kept.record.soak is not None
    assert "--tool-call-parser" in kept.record.soak.left_out["tools"]

    shown = arcops("bench", "show", str(place))
    assert "left out" in shown.out


@pytest.mark.processes
def test_a_mix_that_names_tools_counts_each_refusal_and_the_command_fails(
    server: Serving, site: MadeUpSite, arcops: Run, tmp_path: Path
) -> None:
    place = tmp_path / "soak.json"
    ran = arcops("soak", "--url", server.url, "--for", "1s", "--mix", "tools=1", "--json", "--to", str(place))
    assert ran.code == ExitCode.FAILED, ran.err
    said = json.loads(ran.out)
    assert not said["clean"]
    (errors,) = [gate for gate in said["gates"] if gate["name"] == "errors"]
    assert errors["verdict"] == "failed"
    assert "tools: HTTP 400" in errors["evidence"][0]
    assert "left out" not in ran.err


@pytest.mark.parametrize("words", [("--mix", "tea=1"), ("--for", "soon"), ("--for", "0s"), ("--url", "nonsense")])
def test_what_makes_no_sense_is_a_usage_error(site: MadeUpSite, arcops: Run, words: tuple[str, ...]) -> None:
    assert arcops("soak", *words).code == ExitCode.USAGE


def test_without_url_and_daemon_it_says_so_with_the_code_for_it(site: MadeUpSite, arcops: Run) -> None:
    ran = arcops("soak")
    assert (ran.code, "--url" in ran.err) == (ExitCode.NO_DAEMON, True)
