"""Both sides: `vllm bench serve` as it is, and arcops' own driving."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arcops.bench.drive import Heard, stage
from arcops.bench.server import BenchServer
from tools.yardstick.summary import Measured, of_stage, of_vllm
from tools.yardstick.work import Work

_BEGINS: Final = "Starting main benchmark run"
_ENDS: Final = "Serving Benchmark Result"
_LINES: Final = Path(__file__).with_name("lines")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Bench:
    """vLLM's own benchmark."""

    vllm: Path
    """The executable."""
    url: str
    model: str
    """The served name."""
    tokenizer: str
    folder: Path
    """Where its files go."""

    def measure(self, work: Work, users: int, salt: str, name: str) -> Measured:
        """One round, in a process of its own. Raises subprocess.CalledProcessError with what it said."""
        data, result = self.folder / f"{name}.jsonl", self.folder / f"{name}.json"
        work.write(data)
        command = self._command(work, users, salt, data, result)
        before = after = None
        said: list[str] = []
        with subprocess.Popen(
            command, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                before = _cpu_of(process.pid) if _BEGINS in line else before
                after = _cpu_of(process.pid) if _ENDS in line else after
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, "".join(said[-40:]))
        found = json.loads(result.read_text())
        return Measured(
            figures=of_vllm(found),
            seconds=float(found["duration"]),
            tokens=int(found["total_output_tokens"]),
            failed=len(work.prompts) - int(found["completed"]),
            cpu_seconds=None if before is None or after is None else after - before,
        )

    def _command(self, work: Work, users: int, salt: str, data: Path, result: Path) -> Sequence[str]:
        # The extra fields are what arcops asks with; the warm-up opens the connections, as arcops does.
        extra = json.dumps({"return_token_ids": True, "cache_salt": salt})
        return (
            *(str(self.vllm), "bench", "serve", "--backend", "vllm", "--base-url", self.url),
            *("--model", self.model, "--tokenizer", self.tokenizer, "--endpoint", "/v1/completions"),
            *("--dataset-name", "custom", "--dataset-path", str(data), "--skip-chat-template", "--disable-shuffle"),
            *("--num-prompts", str(len(work.prompts)), "--custom-output-len", str(work.output), "--ignore-eos"),
            *("--max-concurrency", str(users), "--num-warmups", str(users), "--temperature", "0"),
            *("--extra-body", extra, "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "99"),
            *("--save-result", "--save-detailed", "--result-dir", str(result.parent)),
            *("--result-filename", result.name, "--disable-tqdm"),
        )

    def _environment(self) -> dict[str, str]:
        quiet = {
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        # arcops' own tree is not vLLM's to import from; the last place is only looked at where pandas is not installed.
        path = [part for part in os.environ.get("YARDSTICK_VLLM_PYTHONPATH", "").split(os.pathsep) if part]
        return {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join((*path, *_pandas(self.vllm)))}


async def ours(url: str, model: str, work: Work, users: int, salt: str) -> Measured:
    """One round of arcops' own driving: the same warm-up, then the stage."""
    async with BenchServer(url, model=model) as server:
        await server.open()
        items = work.items(salt)
        heard = Heard()
        first = [[items[0]]] * users
        await stage(server, heard, name="warm-up", pass_number=0, users=first)
        shares = [items[user::users] for user in range(users)]
        found = await stage(server, heard, name=f"c{users}", pass_number=1, users=shares)
    load = found.client
    return Measured(
        figures=of_stage(found),
        seconds=load.seconds,
        tokens=sum(one.output_tokens or 0 for one in found.requests),
        failed=sum(bool(one.problem) for one in found.requests),
        cpu_seconds=load.cpu_seconds,
        lag={"p50": 1000 * load.lag_p50, "p99": 1000 * load.lag_p99, "worst": 1000 * load.lag_worst},
    )


def _cpu_of(pid: int) -> float | None:
    """Seconds of processor time of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _pandas(vllm: Path) -> tuple[str, ...]:
    """The stand-in's folder, where the runtime has no pandas of its own."""
    first = vllm.read_text(errors="replace").partition("\n")[0]
    python = first.removeprefix("#!").strip() or "python3"
    found = subprocess.run([python.split()[0], "-c", "import pandas"], capture_output=True, check=False)
    return () if found.returncode == 0 else (str(_LINES),)
