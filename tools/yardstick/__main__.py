"""Measures one server with `vllm bench serve` and with arcops, in turn (A B B A), and prints both beside each other.

Needs a server that runs, arcops' tree on PYTHONPATH, and aiohttp and msgspec in the Python that runs this: those of
vLLM's own environment will do. Where vLLM's executable needs a PYTHONPATH, YARDSTICK_VLLM_PYTHONPATH says it.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from arcops.bench.server import BenchServer
from arcops.core.errors import ArcopsError
from arcops.core.evidence.setting import ServerFacts
from tools.yardstick.sides import Bench, ours
from tools.yardstick.summary import Beside, Measured, beside
from tools.yardstick.work import make


def main() -> None:
    """Prints a table for each number of users; `--json` writes all rounds."""
    parser = argparse.ArgumentParser(prog="python -m tools.yardstick", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server, with its port")
    parser.add_argument("--vllm", default=shutil.which("vllm"), help="the vllm executable that measures")
    parser.add_argument("--tokenizer", help="folder with the tokenizer; else the checkpoint that the server names")
    parser.add_argument("--users", default="1,4,16", help="numbers of users, with commas")
    parser.add_argument("--each", type=int, default=2, help="requests of each user in a round")
    parser.add_argument("--words", type=int, default=120, help="words of a prompt")
    parser.add_argument("--output", type=int, default=256, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=8, help="pairs of rounds: 2 is A B B A")
    parser.add_argument("--json", type=Path, help="where all rounds are written to")
    arguments = parser.parse_args()
    if arguments.vllm is None:
        parser.error("no vllm on PATH: --vllm")
    facts = asyncio.run(_facts(arguments.url))
    tokenizer = arguments.tokenizer or facts.model_root
    if facts.model is None or tokenizer is None:
        parser.error("the server does not name its checkpoint: --tokenizer")
    found: dict[str, dict[str, object]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="yardstick-") as folder,
        Bench(Path(arguments.vllm), facts.url, facts.model, tokenizer, Path(folder)) as bench,
    ):
        for users in (int(word) for word in arguments.users.split(",")):
            found[str(users)] = _rung(bench, users, arguments)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"server": asdict(facts), "users": found}, indent=1))


async def _facts(url: str) -> ServerFacts:
    async with BenchServer(url) as server:
        return await server.open()


def _rung(bench: Bench, users: int, arguments: argparse.Namespace) -> dict[str, object]:
    work = make(users * arguments.each, arguments.words, arguments.output)
    mine: list[Measured] = []
    theirs: list[Measured] = []
    for pair in range(arguments.rounds):
        # A B, then B A: a server that grows slower or faster is so for both.
        for side in ("theirs", "ours") if pair % 2 == 0 else ("ours", "theirs"):
            name = f"c{users}-{pair}-{side}"
            if side == "ours":
                mine.append(asyncio.run(ours(bench.url, bench.model, work, users, name)))
            else:
                theirs.append(bench.measure(work, users, name, name))
            _tell(f"{name}: {(mine if side == 'ours' else theirs)[-1].figures['output_throughput']:.1f} tokens/s")
    rows = beside(mine, theirs)
    print(table(users, rows, mine, theirs), flush=True)
    return {
        "figures": [asdict(row) for row in rows],
        "ours": [asdict(one) for one in mine],
        "theirs": [asdict(one) for one in theirs],
    }


def table(users: int, rows: Sequence[Beside], mine: Sequence[Measured], theirs: Sequence[Measured]) -> str:
    """For people."""
    lines = [f"\n{users} users", f"{'':22}{'arcops':>12}{'vllm':>12}{'ratio':>9}{'95 %':>16}{'rounds differ':>15}"]
    lines += [
        f"{row.name:22}{row.ours:12.3f}{row.theirs:12.3f}{row.ratio:9.3f}{_between(row):>16}{100 * row.spread:13.1f} %"
        for row in rows
    ]
    lines += [_cost("arcops", mine), _cost("vllm", theirs)]
    failed = sum(one.failed for one in (*mine, *theirs))
    return "\n".join([*lines, f"{failed} requests failed" if failed else "no request failed"])


def _between(row: Beside) -> str:
    return "too few pairs" if row.between is None else f"{row.between[0]:.3f}–{row.between[1]:.3f}"


def _cost(name: str, rounds: Sequence[Measured]) -> str:
    known = [(one.cpu_seconds, one.seconds, one.tokens) for one in rounds if one.cpu_seconds is not None]
    if not known:
        return f"{name}: its processor time is not known"
    cpu, seconds, tokens = (sum(column) for column in zip(*known, strict=True))
    words = f"{name}: {100 * cpu / seconds:.1f} % of a core, {1e6 * cpu / tokens:.1f} µs a token"
    lags = [one.lag for one in rounds if one.lag is not None]
    if lags:
        worst = {part: max(lag[part] for lag in lags) for part in ("p50", "p99", "worst")}
        words += ", loop late by " + ", ".join(f"{value:.2f} ms ({part})" for part, value in worst.items())
    return words


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        main()
    except (ArcopsError, RuntimeError) as error:
        sys.exit(str(error))
