"""The fake vLLM in the place of the runtime that `make` builds."""

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fakes.runtime import fake_model, fake_vllm_path
from tools.own import Runtime


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    models = tmp_path / "tiny"
    fake_model(models / "hybrid", mtp=True)
    fake_model(models / "dflash")
    return Runtime(fake_vllm_path(), models)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Where temporary folders are made: empty at first, and its path is short enough for a socket below it."""
    with tempfile.TemporaryDirectory(prefix="arcops-t-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("NO_COLOR", "1")
        yield Path(folder)
