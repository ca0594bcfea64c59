"""What is installed beside an executable, from the metadata that installers leave: nothing is imported, nothing run."""

import os
from importlib.metadata import distributions
from pathlib import Path


def beside(executable: str) -> tuple[Path, ...]:
    """The site-packages of the virtual environment that `executable` stands in; empty when it stands in none."""
    root = Path(executable).parent.parent
    return tuple(sorted(root.glob("lib/python3.*/site-packages")))


def installed(folders: tuple[Path, ...]) -> dict[str, str]:
    """Name and version of every package in these folders. Metadata that cannot be read is left out."""
    found: dict[str, str] = {}
    for one in distributions(path=[os.fspath(folder) for folder in folders]):
        try:
            name, version = one.name, one.version
        except (OSError, KeyError, ValueError):
            continue
        # Either is None where the metadata is empty, whatever the types say.
        if isinstance(name, str) and isinstance(version, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            found[name] = version
    return dict(sorted(found.items(), key=lambda pair: pair[0].lower()))
