"""Both sides: `vllm bench serve` as it is, and arcops' own driving."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from arcops.bench.drive import Heard, stage
from arcops.bench.server import BenchServer
from tools.yardstick.summary import Measured, of_stage, of_vllm
from tools.yardstick.work import Work

_BEGINS: Final = "Starting main benchmark run"
_ENDS: Final = "Serving Benchmark Result"
READY: Final = "yardstick: ready"
DONE: Final = "yardstick: done"
"""What `inside` says."""
_INSIDE: Final = Path(__file__).with_name("inside.py")
_LINES: Final = Path(__file__).with_name("lines")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Bench:
    """vLLM's own benchmark, in a process that stays: used as a context manager."""

    def __init__(self, vllm: Path, url: str, model: str, tokenizer: str, folder: Path) -> None:
        """`vllm` is the executable, `model` the served name, `folder` where its files go."""
        self.url = url
        self.model = model
        self._vllm = vllm
        self._tokenizer = tokenizer
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        python = python_of(self._vllm)
        self._process = subprocess.Popen(
            [python, "-P", "-u", str(_INSIDE)],
            env=self._environment(python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self._read_until(READY)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        with self._process as process:
            if kind is not None:
                process.kill()

    def measure(self, work: Work, users: int, salt: str, name: str) -> Measured:
        """One round. Raises RuntimeError, with what it said, where it fails."""
        assert self._process is not None
        assert self._process.stdin is not None
        data, result = self._folder / f"{name}.jsonl", self._folder / f"{name}.json"
        work.write(data)
        self._process.stdin.write(json.dumps(self._arguments(work, users, salt, data, result)) + "\n")
        cpu = self._read_until(DONE)
        found = json.loads(result.read_text())
        return Measured(
            figures=of_vllm(found),
            seconds=float(found["duration"]),
            tokens=int(found["total_output_tokens"]),
            failed=len(work.prompts) - int(found["completed"]),
            cpu_seconds=cpu,
        )

    def _read_until(self, end: str) -> float | None:
        """Reads its output on to this line; the processor time between the marks of a benchmark, where it made them."""
        assert self._process is not None
        assert self._process.stdout is not None
        began = ended = None
        said: list[str] = []
        for line in self._process.stdout:
            said = [*said[-40:], line]
            began = _cpu_of(self._process.pid) if _BEGINS in line else began
            ended = _cpu_of(self._process.pid) if _ENDS in line else ended
            if line.strip() == end:
                return None if began is None or ended is None else ended - began
        raise RuntimeError("vllm bench serve ended:\n" + "".join(said))

    def _arguments(self, work: Work, users: int, salt: str, data: Path, result: Path) -> Sequence[str]:
        # The extra fields are what arcops asks with; the warm-up opens the connections, as arcops does.
        extra = json.dumps({"return_token_ids": True, "cache_salt": salt})
        return (
            *("--backend", "vllm", "--base-url", self.url),
            *("--model", self.model, "--tokenizer", self._tokenizer, "--endpoint", "/v1/completions"),
            *("--dataset-name", "custom", "--dataset-path", str(data), "--skip-chat-template", "--disable-shuffle"),
            *("--num-prompts", str(len(work.prompts)), "--custom-output-len", str(work.output), "--ignore-eos"),
            *("--max-concurrency", str(users), "--num-warmups", str(users), "--temperature", "0"),
            *("--extra-body", extra, "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "99"),
            *("--save-result", "--save-detailed", "--result-dir", str(result.parent)),
            *("--result-filename", result.name, "--disable-tqdm"),
        )

    def _environment(self, python: str) -> dict[str, str]:
        quiet = {
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        # arcops' own tree is not vLLM's to import from; the last place is only looked at where pandas is not installed.
        path = [part for part in os.environ.get("YARDSTICK_VLLM_PYTHONPATH", "").split(os.pathsep) if part]
        return {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join((*path, *_pandas(python)))}


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


def python_of(vllm: Path) -> str:
    """The interpreter that vLLM's executable names in its first line; python3 where that is a shell's, or `env`."""
    first = vllm.read_text(errors="replace").partition("\n")[0].removeprefix("#!").split()
    return first[0] if first and Path(first[0]).name.startswith("python") else "python3"


def _pandas(python: str) -> tuple[str, ...]:
    """The stand-in's folder, where the runtime has no pandas of its own."""
    found = subprocess.run([python, "-c", "import pandas"], capture_output=True, check=False)
    return () if found.returncode == 0 else (str(_LINES),)
