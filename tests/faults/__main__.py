"""`python -m tests.faults RESULTS`: prints what a run of the matrix came to, and writes docs/faults.md.

Ends with 1 where a cell has no result: it failed, or was not played.
"""

import sys
from pathlib import Path

from tests.faults.table import DOCUMENT, document, missing, read


def main(arguments: list[str]) -> int:
    results = read(Path(arguments[0]))
    text = document(results)
    sys.stdout.write(text)
    absent = missing(results)
    if absent:
        sys.stderr.write("no result, so docs/faults.md stays as it is:\n  " + "\n  ".join(absent) + "\n")
        return 1
    DOCUMENT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
