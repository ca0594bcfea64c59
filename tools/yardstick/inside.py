"""Run by vLLM's own Python: `vllm bench serve` for each line of arguments (a JSON list) on stdin, in one process.

The command itself takes ten seconds to start; without them, rounds can be short and many, and what else happens on the
machine meets both sides alike. Stand-alone: it imports nothing of arcops.
"""

import argparse
import asyncio
import json
import sys

from vllm.benchmarks.serve import add_cli_args, main_async  # pyright: ignore[reportMissingImports,reportUnknownVariableType] - vLLM is only in its own environment

READY, DONE = "yardstick: ready", "yardstick: done"


def main() -> None:
    parser = argparse.ArgumentParser()
    add_cli_args(parser)
    print(READY, flush=True)
    for line in sys.stdin:
        asyncio.run(main_async(parser.parse_args(json.loads(line))))  # pyright: ignore[reportUnknownArgumentType] - as above
        print(DONE, flush=True)


if __name__ == "__main__":
    main()
