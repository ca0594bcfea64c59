"""`make demo`: arcops at work with real vLLM on this machine's processor.

Builds what is missing (the vLLM CPU runtime and the tiny models), starts a daemon of its own instance in a directory of
its own, switches to `demo-dflash2`, asks for one completion and opens the screen. Without a terminal it prints the
completion and `arcops status` instead. Afterwards everything that it started is stopped, and nothing of the demo is
left but the runtime in the cache.
"""

import sys
import time

import httpx

from arcops.client import Client
from arcops.core.errors import ArcopsError
from tools.own import SWITCH_WITHIN, Arcops, leave_on_sigterm, runtime, say, supervised

PROMPT = "The supervisor starts"
COMPLETION_WITHIN = 120.0
"""Seconds: the first sampled request of the CPU build can take twenty."""
NUMBERS_WITHIN = 30.0
"""Seconds for the daemon's scrape, once a second, to see the completion."""


def main() -> None:
    """Run the demo. Ends with the exit code of the first step that failed."""
    leave_on_sigterm()
    found = runtime()
    say("starting arcopsd (instance `demo`)")
    with supervised("demo", found) as arcops:
        show(arcops)
        say("stopping the daemon; it takes its backend down")


def show(arcops: Arcops) -> None:
    """The part that is worth looking at. SystemExit if a step fails."""
    say("arcops switch demo-dflash2   (a real vLLM starts: half a minute)")
    arcops.must("switch", "demo-dflash2", within=SWITCH_WITHIN)
    say(f"one completion of http://127.0.0.1:{arcops.port}")
    sys.stdout.write(f"{PROMPT}{complete(arcops.port)}\n")
    sys.stdout.flush()
    if sys.stdin.isatty() and sys.stdout.isatty():
        say("arcops tui   (q leaves; s switches, to demo-target-only or demo-mtp for example)")
        arcops.must("tui")
        return
    say("arcops status")
    wait_for_numbers(arcops)
    arcops.must("status", within=COMPLETION_WITHIN)


def wait_for_numbers(arcops: Arcops) -> None:
    """Until the daemon has seen the completion in vLLM's metrics. SystemExit if it does not."""
    deadline = time.monotonic() + NUMBERS_WITHIN
    try:
        with Client(arcops.socket) as client:
            for status in client.follow_status():
                if status.rates.ttft is not None:
                    return
                if time.monotonic() > deadline:
                    raise SystemExit(f"the daemon has not seen the completion after {NUMBERS_WITHIN:.0f} s")
    except ArcopsError as error:
        raise SystemExit(str(error)) from error
    raise SystemExit("the daemon ended while its numbers were waited for")


def complete(port: int) -> str:
    """One greedy completion from vLLM itself. SystemExit if there is none."""
    body = {"model": "demo", "prompt": PROMPT, "max_tokens": 60, "temperature": 0}
    url = f"http://127.0.0.1:{port}/v1/completions"
    try:
        answer = httpx.post(url, json=body, timeout=COMPLETION_WITHIN, trust_env=False)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise SystemExit(f"no completion from {url}: {error or type(error).__name__}") from error
    return str(answer.json()["choices"][0]["text"])


if __name__ == "__main__":
    main()
