"""One piece over and over, as long as a careless or hostile writer likes: what a pattern that backtracks is slow at."""

from collections.abc import Callable
from time import process_time

import pytest

from arcops.core.diagnosis import diagnose
from arcops.core.diagnosis.judge import Evidence
from arcops.core.metrics import parse
from arcops.core.phase import Phase
from arcops.core.progress import StartProgress, advance
from arcops.machine.gpu import drm
from arcops.report.hiding import Hider
from tests.fuzz.harness import LONGEST

pytestmark = pytest.mark.fuzz

LENGTH = 60_000
"""Characters: what costs its square at 20 ns a step takes a minute then, what costs its length a millisecond."""
PIECES = (
    *'a "=1.[(/-\\\t{}:%|_',
    *("key", "token=", "--a ", "a=", "e1", "1.", "a b ", "error ", 'secret"', "://", "bearer ", "GiB "),
    "-----BEGIN PRIVATE KEY-----",
    "is not supported ",
)


def judged(line: str) -> object:
    return diagnose(Evidence(exit_code=1, phase=Phase.STARTING, log=(line,), profile_speculates=True))


READERS: dict[str, tuple[Callable[[str], object], str, str]] = {
    "labels of a metric": (parse, "vllm:inter_token_latency_seconds_bucket{", "} 1\n"),
    "labels without an end": (parse, "vllm:cache_config_info{", "\n"),
    "a metric's name": (parse, "", "\n"),
    "a line of a start": (lambda line: advance(StartProgress(), line), "(EngineCore pid=1) INFO 11-30 [x.py:1] ", ""),
    "an error": (judged, "ERROR ", ""),
    "a text with secrets": (Hider(("a known secret",)).text, "token ", " key"),
    "an fdinfo": (drm.parse, "drm-client-id:", "\n"),
}


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("reader", READERS)
def test_a_long_line_costs_no_more_than_its_length(reader: str, piece: str) -> None:
    read, head, tail = READERS[reader]
    line = head + piece * (LENGTH // len(piece)) + tail
    before = process_time()
    read(line)
    assert process_time() - before < LONGEST
