"""A made-up machine, and `arcops` run in this process."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from arcops.cli.main import app
from arcops.cli.output import guard
from tests.sites import MadeUpSite


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command said, and what it told the shell."""

    code: int
    out: str
    err: str


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUpSite:
    """The made-up machine, as this process's environment."""
    made = MadeUpSite(tmp_path)
    for name in (
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "HF_HOME",
        "HF_HUB_CACHE",
        "ARCOPS_INSTANCE",
        "ARCOPS_RUNTIME_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def arcops(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `arcops ARGUMENTS...`."""

    def run(*arguments: str) -> Ran:
        try:
            guard(lambda: app(list(arguments), prog_name="arcops"))()
        except SystemExit as ended:
            code = ended.code
        else:
            code = 0
        said = capsys.readouterr()
        return Ran(code if isinstance(code, int) else 0, said.out, said.err)

    return run
