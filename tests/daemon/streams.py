"""A streamed completion, read as a client of the backend reads it."""

import json

import httpx

from tests.daemon.rig import Rig


def read_stream(rig: Rig, lines: list[str], tokens: int) -> None:
    """Collect the data of one streamed completion."""
    body = {"model": "tiny", "prompt": "one two", "max_tokens": tokens, "temperature": 0, "stream": True}
    with httpx.stream("POST", f"{rig.url}/v1/completions", json=body, timeout=60, trust_env=False) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                lines.append(line.removeprefix("data: "))
    assert json.loads(lines[0])
