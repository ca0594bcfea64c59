"""Lines in vLLM's form, on stdout: `(APIServer pid=N) INFO MM-DD HH:MM:SS [file.py:line] text`."""

import os
import time

from fake_vllm_lib.flags import VERSION, Flags

ROUTES = (
    ("/load", "GET"),
    ("/version", "GET"),
    ("/health", "GET"),
    ("/metrics", "GET"),
    ("/tokenize", "POST"),
    ("/detokenize", "POST"),
    ("/v1/models", "GET"),
    ("/ping", "GET"),
    ("/ping", "POST"),
    ("/v1/chat/completions", "POST"),
    ("/v1/completions", "POST"),
)
LOGO = (
    "",
    "       █     █     █▄   ▄█",
    f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {VERSION}",
    "  █▄█▀ █     █     █     █  model   %s",
    "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
    "",
)


def emit(text: str) -> None:
    """Write to stdout in one call, so that lines of several processes do not mix; a reader may have gone."""
    try:
        os.write(1, (text + "\n").encode())
    except OSError:
        return


class Log:
    """The log of one process of the server."""

    def __init__(self, process: str = "") -> None:
        self._process = process

    @property
    def prefix(self) -> str:
        return f"({self._process} pid={os.getpid()}) " if self._process else ""

    def raw(self, text: str) -> None:
        """Text without time and place, each line with the process."""
        emit("\n".join(self.prefix + line for line in text.split("\n")))

    def line(self, place: str, text: str, level: str = "INFO") -> None:
        """A line with level, time and `file.py:line`; of several lines of text each gets them."""
        head = f"{self.prefix}{level} {time.strftime('%m-%d %H:%M:%S')} [{place}] "
        emit("\n".join(head + line for line in text.split("\n")))


def greeting(log: Log, flags: Flags) -> None:
    """What vLLM says about itself before it binds its port."""
    for line in LOGO:
        log.line("api_utils.py:347", line % flags.model if "%s" in line else line)
    log.line("api_utils.py:286", f"non-default args: {flags.non_default()!r}")


def shard(log: Log, done: int, of: int) -> None:
    """Progress of loading the checkpoint."""
    percent = 100 * done // of
    log.raw(f"Loading safetensors checkpoint shards: {percent:3d}% Completed | {done}/{of} [00:00<00:00, 99.00it/s]")


def routes(log: Log) -> None:
    log.line("launcher.py:61", "Available routes are:")
    for path, method in ROUTES:
        log.line("launcher.py:70", f"Route: {path}, Methods: {method}")
