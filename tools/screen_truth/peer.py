"""vllmstat's numbers of the same server, once a second: its own engine in its own environment feeds its screen so."""

import json
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, cast

# What vllmstat's `--once --json` does, again and again: fetch, derive, print.
_PROGRAM = """
import asyncio, json, sys, time
from vllmstat.core.metrics import MetricsEngine
from vllmstat.core.parse import parse_metrics
from vllmstat.providers.vllm import VllmProvider
from vllmstat.snapshot_json import snapshot_to_dict

async def go(url):
    provider = VllmProvider(base_url=url, metrics_path="/metrics", api_key=None)
    engine = MetricsEngine(dims=None, max_model_len=None)
    while True:
        families = parse_metrics((await provider.fetch_metrics()).text)
        told = snapshot_to_dict(engine.derive(families, now=time.monotonic()))
        print(json.dumps({"at": time.time(), "told": told}, default=str), flush=True)
        await asyncio.sleep(1.0)

asyncio.run(go(sys.argv[1]))
"""


@dataclass(slots=True)
class Peer:
    """Runs until it is left."""

    python: Path
    port: int
    told: list[tuple[float, dict[str, object]]] = field(default_factory=list[tuple[float, dict[str, object]]])
    """When (seconds since the epoch), and what."""
    _process: "subprocess.Popen[str] | None" = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [str(self.python), "-c", _PROGRAM, f"http://127.0.0.1:{self.port}"], stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            one = cast("dict[str, object]", json.loads(line))
            self.told.append((cast("float", one["at"]), cast("dict[str, object]", one["told"])))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)

    def number(self, key: str, since: float, until: float) -> tuple[float, float, float] | None:
        """The least, the mean and the greatest that it showed within that time; None where it showed nothing."""
        values = [float(cast("float", told[key])) for at, told in self.told if since < at <= until]
        return (min(values), sum(values) / len(values), max(values)) if values else None

    def quantile(self, family: str, name: str, until: float) -> float | None:
        """What it showed last: `p50` and so on of `ttft`, `tpot` or `e2e`, in seconds."""
        told = [told for at, told in self.told if at <= until]
        return cast("dict[str, float | None]", told[-1][family])[name] if told else None
