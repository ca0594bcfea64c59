"""Make an edition of the content that prompts are cut from: prose and code out of a tree of arcops' sources.

    python tools/content/make.py TREE EDITION

TREE has `arcops/` and `docs/`: best what `git archive` gives. The texts are put where `arcops.bench.content.texts`
reads them, and their digests are printed, to be written there. An edition that was released is never made again.
"""

import ast
import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from arcops.core.evidence.work import digest

DATA = Path(__file__).resolve().parents[2] / "arcops" / "bench" / "content" / "data"
ROOMS = ("core", "machine", "daemon", "config", "tui", "cli")
"""Whose code is taken; the docstrings of all are."""
MOST_CODE = 900_000
"""Characters of code."""
_GENERATED = re.compile(r"```mermaid.*?```\n", re.DOTALL)


def main(tree: Path, edition: int) -> None:
    DATA.mkdir(exist_ok=True)
    for kind, text in (("prose", prose(tree)), ("code", code(tree))):
        content = text.encode()
        path = DATA / f"{kind}-{edition}.txt.gz"
        path.write_bytes(gzip.compress(content, 9, mtime=0))
        print(f'    "{kind}": "{digest(content)}",  # {len(text):,} characters, {path.stat().st_size:,} bytes')


def prose(tree: Path) -> str:
    """The documents, then what the sources say of themselves, module by module."""
    pages = [_GENERATED.sub("", path.read_text()) for path in sorted((tree / "docs").rglob("*.md"))]
    said = ["\n\n".join(_docstrings(path, tree)) for path in modules(tree)]
    return "\n\n".join(page.strip() for page in (*pages, *said) if page.strip()) + "\n"


def code(tree: Path) -> str:
    """The sources without their docstrings, which are prose already."""
    texts: list[str] = []
    size = 0
    for path in modules(tree):
        if path.relative_to(tree / "arcops").parts[0] in ROOMS and size < MOST_CODE:
            text = f"# {path.relative_to(tree)}\n{_without_docstrings(path.read_text())}"
            texts.append(text)
            size += len(text)
    return "\n\n".join(texts)


def modules(tree: Path) -> list[Path]:
    """In an order that mixes the rooms: by the digest of their names."""
    found = (tree / "arcops").rglob("*.py")
    return sorted(found, key=lambda path: digest(str(path.relative_to(tree)).encode()))


def _docstrings(path: Path, tree: Path) -> Iterator[str]:
    name = ".".join(path.relative_to(tree).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            own = name if isinstance(node, ast.Module) else node.name
            said = ast.get_docstring(node)
            if said:
                yield f"`{own}`: {said}"
            for before, after in zip(node.body, node.body[1:], strict=False):
                target = _name_of(before)
                if target and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    yield f"`{target}`: {after.value.value}"


def _name_of(node: ast.stmt) -> str:
    """Of what an assignment names."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return next((target.id for target in targets if isinstance(target, ast.Name)), "")


def _without_docstrings(text: str) -> str:
    kept = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                kept[number] = "\0"
    return "\n".join(line for line in kept if line != "\0").strip() + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
