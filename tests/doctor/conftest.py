"""A made-up machine with made-up managers, looked at by the doctor."""

from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.doctor.patient import Patient


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Patient]:
    with TemporaryDirectory(prefix="arcops-") as short:
        made = Patient(tmp_path, Path(short))
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "ARCOPS_INSTANCE"):
            monkeypatch.delenv(name, raising=False)
        yield made
