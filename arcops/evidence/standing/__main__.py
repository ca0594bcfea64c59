"""The child: see `child`."""

import os
import sys
from contextlib import suppress

import msgspec

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.evidence.standing.child import LARGEST_QUESTION, Question
from arcops.evidence.standing.judge import judge
from arcops.machine import idle


def main() -> int:
    """Exit code: 0 with the answer on stdout, 1 with one sentence on stderr."""
    try:
        question = msgspec.json.decode(sys.stdin.buffer.read(LARGEST_QUESTION), type=Question)
        if not question.hurry:
            with suppress(OSError):
                idle.become()
        found = judge(question, Paths.of(question.instance))
    except (ArcopsError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        told = error.message if isinstance(error, ArcopsError) else str(error)
        os.write(2, f"{told}\n".encode(errors="backslashreplace"))
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(found))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
