"""Real vLLM's runtime: exactly what was patched by hand is named, in a first look and in a second."""

import sys
from pathlib import Path

import pytest

from arcops.evidence.environment.distributions import found_in
from arcops.machine.hashes import Hashes
from arcops.machine.interpreter import interpreter_of, program_of
from tests.fakes.runtime import ROOT, real_runtime

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def patched() -> set[str]:
    """What tools/vllm_cpu changes; stand-alone scripts, which know one another by being in one folder."""
    sys.path.insert(0, str(ROOT / "tools" / "vllm_cpu"))
    try:
        import patches  # pyright: ignore[reportMissingImports, reportUnknownVariableType] - found by the line above
    finally:
        sys.path.pop(0)
    return {str(patch.file) for patch in patches.PATCHES}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType] - as above


def test_exactly_the_patched_files_are_named(tmp_path: Path) -> None:
    program = program_of(str(real_runtime().vllm))
    folders = interpreter_of(program).folders
    first = Hashes(str(tmp_path / "hashes"))
    found = found_in(folders, program.prefix, first)
    files = {file.path for one in found.distributions for file in one.files}
    # Whoever intercepts this machine's TLS adds its own certificates to certifi's: that is a real difference, too.
    assert files - {"certifi/cacert.pem", "pip/_vendor/certifi/cacert.pem"} == patched()
    assert (found.loose, found.unread) == ([], [])
    assert len(found.distributions) > 100
    first.keep()
    second = Hashes(str(tmp_path / "hashes"))
    assert found_in(folders, program.prefix, second) == found
    assert second.counts.read < first.counts.read / 100
