"""Which server is measured, where no daemon tells: whoever listens there, with its command line and no secret of it."""

import http.server
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from arcops.core.evidence.setting import ServerFacts
from arcops.evidence.setting import at_once, concealed, is_here, known, same_place
from arcops.machine import sockets
from tests.helpers import eventually, free_port

_SERVES = "import http.server, sys; http.server.HTTPServer(('127.0.0.1', int(sys.argv[-1])), None).serve_forever()"


@pytest.fixture
def listener() -> Generator[int]:
    """A process that listens, and whose command line reads like vLLM's; its port."""
    number = free_port()
    words = ("vllm", "serve", "/models/tiny", "--max-num-seqs", "4", "--api-key", "one", "two", "--port", str(number))
    process = subprocess.Popen([sys.executable, "-c", _SERVES, *words])
    try:
        eventually(lambda: bool(sockets.listening(number)))
        yield number
    finally:
        process.kill()
        process.wait()


@pytest.mark.processes
def test_whoever_listens_there_is_known_by_its_command_line(listener: int, tmp_path: Path) -> None:
    found = known(ServerFacts(url=f"http://127.0.0.1:{listener}"), tmp_path / "no.sock")
    configuration = found.configuration
    assert (configuration.source, configuration.max_num_seqs, configuration.profile) == ("process", 4, None)
    assert configuration.argv[:3] == ("vllm", "serve", "/models/tiny"), "the interpreter is no part of it"
    assert "one" not in configuration.argv
    assert "two" not in configuration.argv
    assert (found.by_daemon, found.cards, found.remark) == (False, None, "")


def test_where_nobody_listens_nothing_is_known_and_that_is_said(tmp_path: Path) -> None:
    number = free_port()
    found = known(ServerFacts(url=f"http://127.0.0.1:{number}"), tmp_path / "no.sock")
    assert (found.configuration.source, found.configuration.argv) == ("unknown", ())
    assert f"at port {number} listens no `vllm serve`" in found.remark


def test_another_program_on_the_port_is_not_taken_for_vllm(tmp_path: Path) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        found = known(ServerFacts(url=f"http://localhost:{server.server_port}"), None)
    assert found.configuration.source == "unknown"


def test_another_machines_server_is_not_looked_for_here() -> None:
    found = known(ServerFacts(url="http://gpu-box.example:8000"), None)
    assert found.configuration.source == "unknown"
    assert found.remark == "gpu-box.example is another machine: its command line is not known"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("vllm", "--api-key", "a", "b", "--port", "1"), ("vllm", "--api-key", "(hidden)", "(hidden)", "--port", "1")),
        (("vllm", "--api-key=a"), ("vllm", "--api-key=(hidden)")),
        (("vllm", "--hf-token", "a"), ("vllm", "--hf-token", "(hidden)")),
        (("vllm", "--max-num-batched-tokens", "8192"), ("vllm", "--max-num-batched-tokens", "8192")),
        (("vllm", "--x", "http://me:pass@host/"), ("vllm", "--x", "http://(hidden)@host/")),
        (("vllm", "--x=http://me:pass@host/"), ("vllm", "--x=http://(hidden)@host/")),
    ],
)
def test_a_secret_of_a_command_line_is_hidden_and_nothing_else(argv: tuple[str, ...], told: tuple[str, ...]) -> None:
    assert concealed(argv) == told


@pytest.mark.parametrize(
    ("argv", "number"),
    [
        (("--max-num-seqs", "4"), 4),
        (("--max-num-seqs=16",), 16),
        (("--max_num_seqs", "2"), 2),
        (("--max-num-seqs",), None),
        (("--max-num-seqs", "many"), None),
        (("--max-num-seqs", "9" * 40), None),
        ((), None),
    ],
)
def test_what_runs_at_once_is_read_off_the_command_line(argv: tuple[str, ...], number: int | None) -> None:
    assert at_once(argv) == number


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "0.0.0.0"])
def test_loopback_is_here(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize("host", ["", "10.0.0.1", "example.org", "localhost.example.org"])
def test_any_other_address_may_be_another_machine(host: str) -> None:
    assert not is_here(host)


def test_two_names_of_loopback_with_one_port_are_one_server() -> None:
    assert same_place("http://127.0.0.1:8000", "http://localhost:8000")
    assert not same_place("http://127.0.0.1:8000", "http://127.0.0.1:8001")
    assert not same_place("http://10.0.0.1:8000", "http://127.0.0.1:8000")
