"""`arcops bench`: its commands, its numbers, and what it tells the shell."""

from collections.abc import Callable

import pytest

from arcops.cli.bench import COMMANDS
from arcops.cli.bench_measure import _number as number_of  # pyright: ignore[reportPrivateUsage] - how numbers are read
from arcops.core.errors import ArcopsError, ExitCode
from tests.cli.conftest import Ran
from tests.sites import MadeUpSite

Run = Callable[..., Ran]


def test_help_lists_every_command(site: MadeUpSite, arcops: Run) -> None:
    ran = arcops("bench", "--help")
    assert ran.code == 0
    for name, _, summary in COMMANDS:
        assert name in ran.out
        assert summary in ran.out


@pytest.mark.parametrize("command", ["long-prompt", "context", "ladder", "suite"])
def test_without_url_and_daemon_it_says_so_with_the_code_for_it(site: MadeUpSite, arcops: Run, command: str) -> None:
    ran = arcops("bench", command)
    assert (ran.code, "no server to measure" in ran.err, "--url" in ran.err) == (8, True, True)


@pytest.mark.parametrize(
    "words",
    [
        ("context", "--depths", "2K,much"),
        ("context", "--depths", ""),
        ("ladder", "--rungs", "1,-2"),
        ("long-prompt", "--tokens", "1.5K"),
        ("suite", "--url", "nonsense"),
        ("context", "--url", "http://127.0.0.1:9", "--oracle-profile", "target-only"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(site: MadeUpSite, arcops: Run, words: tuple[str, ...]) -> None:
    assert arcops("bench", *words).code == 2


def test_a_k_is_1024() -> None:
    assert [number_of(word, "depths") for word in ("2K", " 32k", "512")] == ["2048", "32768", "512"]
    with pytest.raises(ArcopsError) as refused:
        number_of("9" * 12, "depths")
    assert refused.value.exit_code is ExitCode.USAGE
