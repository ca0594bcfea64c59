"""`make docs`: writes what documents take from the code (tests/test_docs.py says when it is needed)."""

from pathlib import Path

from arcops.core.phase import diagram

ARCHITECTURE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
FENCE = "```mermaid\n"


def main() -> None:
    """Put the phases' diagram into docs/architecture.md."""
    text = ARCHITECTURE.read_text()
    head, _, rest = text.partition(FENCE)
    _, _, tail = rest.partition("```")
    ARCHITECTURE.write_text(f"{head}{FENCE}{diagram()}\n```{tail}")


if __name__ == "__main__":
    main()
