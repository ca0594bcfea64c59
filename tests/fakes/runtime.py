"""What tests serve with: the fake vLLM, or the real one on the CPU with its tiny models."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.helpers import cannot_run_here

ROOT = Path(__file__).resolve().parents[2]
BUILDER = ROOT / "tools" / "vllm_cpu" / "build.py"
BUILD_WITH = "make runtime, or ARCOPS_BUILD_RUNTIME=1"
REAL_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "1",
}
"""What real vLLM needs in its environment to serve the tiny models on a small machine without a network."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The `vllm` executable, and the folder with the models dense, hybrid, draft, dflash and dflash_dense."""

    vllm: Path
    models: Path


def fake_vllm_path() -> Path:
    """The executable of the fake, for `runtime.vllm` of a profile."""
    return Path(__file__).with_name("fake_vllm.py")


def fake_model(folder: Path, *, mtp: bool = False, longest: int = 32768) -> Path:
    """Make `folder` look like a model to the fake: with an MTP head or not, and its longest sequence in tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, object] = {"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": longest}
    if mtp:
        config["mtp_num_hidden_layers"] = 1
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@cache
def real_runtime() -> Runtime:
    """Real vLLM on the CPU. Built on the spot in CI or with ARCOPS_BUILD_RUNTIME=1; else the test is skipped."""
    found = _builder("--check")
    if found.returncode and (os.environ.get("CI") or os.environ.get("ARCOPS_BUILD_RUNTIME") == "1"):
        found = _builder()
    if found.returncode:
        cannot_run_here(f"no vLLM CPU runtime (build it: {BUILD_WITH}): {found.stderr.strip()[-2000:]}")
    lines = dict(line.split("=", 1) for line in found.stdout.splitlines())
    return Runtime(Path(lines["vllm"]), Path(lines["models"]))


def _builder(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BUILDER, *arguments], capture_output=True, text=True, check=False)
