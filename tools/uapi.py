"""`python -m tools.uapi`: the kernel's own headers for device nodes, which the tests hold arcops' structures against.

Debian's linux-libc-dev has them in /usr/include/drm. The one of Debian 12 is of Linux 6.1 and knows no xe: then the
package of a newer suite is fetched by apt, from the mirror that this machine uses, and unpacked into the cache. Nothing
is installed, and apt's own lists stay as they are.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

NEEDED = ("drm/xe_drm.h", "drm/i915_drm.h", "drm/drm.h")
PACKAGE = "linux-libc-dev"
WITHIN = 120.0
"""Seconds for each step: an archive's index has some megabytes."""
_TARGET = "$(SITE) $(RELEASE) $(COMPONENT)"


def main() -> None:
    """Say where the headers are, after fetching them if need be. SystemExit where they are not to be had."""
    found = headers() or fetched()
    if found is None:
        raise SystemExit(f"no {NEEDED[0]} here, and no {PACKAGE} with one from this machine's package archive")
    sys.stdout.write(f"{found}\n")


def headers() -> Path | None:
    """The folder to be given to a compiler's -I; None where the headers are not on this machine."""
    return next((folder for folder in (Path("/usr/include"), cache() / "usr/include") if _complete(folder)), None)


def cache() -> Path:
    """Where they are unpacked to."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "arcops" / "uapi"


def fetched() -> Path | None:
    """The headers of the oldest suite that has them, newly unpacked; None where there is none, or no apt."""
    with tempfile.TemporaryDirectory() as folder:
        for source in sources():
            try:
                package = _download(source, Path(folder))
                _run("dpkg-deb", "-x", str(package), f"{folder}/unpacked")
                shutil.rmtree(cache(), ignore_errors=True)
                shutil.move(f"{folder}/unpacked", cache())
            except (OSError, subprocess.SubprocessError, LookupError) as error:
                sys.stderr.write(f"{source}: {error}\n")
                continue
            if (found := headers()) is not None:
                return found
    return None


def sources() -> Iterator[str]:
    """What could stand in a sources.list: this machine's own mirror, with a newer suite each time. None without apt."""
    # By default apt tells only of indexes that it has: on a machine that never ran `apt-get update`, of none.
    try:
        told = _run("apt-get", "indextargets", "--no-release-info", "--format", _TARGET, "Created-By: Packages")
    except (OSError, subprocess.SubprocessError, LookupError):
        return
    for line in dict.fromkeys(told.splitlines()):
        site, suite, component = (*line.split(), "", "", "")[:3]
        if component == "main" and site.rstrip("/").endswith("/debian") and "-" not in suite:
            for newer in (f"{suite}-backports", "stable", "testing"):
                yield f"deb {site} {newer} main"


def _download(source: str, folder: Path) -> Path:
    """The package from one source. Raises LookupError where apt brings none."""
    (folder / "sources.list").write_text(f"{source}\n")
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    own = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    options = [word for key, value in own.items() for word in ("-o", f"{key}={value}")]
    _run("apt-get", "-qq", *options, "update")
    suite = source.split()[2]
    _run("apt-get", "-qq", *options, "download", f"{PACKAGE}/{suite}", where=folder)
    packages = sorted(folder.glob(f"{PACKAGE}_*.deb"))
    if not packages:
        raise LookupError(f"no {PACKAGE}")
    return packages[-1]


def _run(*command: str, where: Path | None = None) -> str:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=WITHIN)
    if done.returncode:
        raise LookupError(f"{' '.join(command[:1])}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in NEEDED)


if __name__ == "__main__":
    main()
