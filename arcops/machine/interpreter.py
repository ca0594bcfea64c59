"""Which Python runs behind an executable, and where it looks for packages. Of the runtime nothing is imported.

The interpreter itself is asked for its version and its folders, isolated and without site (`-I -S`): so no .pth file
runs. What pyvenv.cfg says of the version is what it was when the environment was made, and a distribution's update
changes the interpreter below it; that is used only where the interpreter cannot be run.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape, glob
from typing import Final, cast

LONGEST_CHAIN: Final = 5
"""Wrappers that call one another."""
LARGEST_SCRIPT: Final = 1 << 20
"""Bytes of a wrapper that are read."""
WITHIN: Final = 20.0
"""Seconds that the interpreter has for its answer; it takes hundredths."""
MOST_ADDED: Final = 100
"""Folders that .pth files add."""
_ASK: Final = """
import json, platform, site, sys
folders = [folder for prefix in sys.argv[1:] or [sys.prefix] for folder in site.getsitepackages([prefix])]
base = site.getsitepackages([sys.base_prefix])
print(json.dumps([platform.python_implementation(), platform.python_version(), sys.version, folders, base,
                  site.getusersitepackages()]))
"""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?")
_TARGET = re.compile(r"""(/[^\s"'`$;|&<>()]*/bin/(?:vllm|activate|(?:python|pypy)[\d.]*))(?=[\s"'`;|&<>()]|$)""")
_LONG = re.compile(rb"^'''exec' \"?(/[^\"\n]+?)\"? \"\$0\" \"\$@\"", re.MULTILINE)
"""What installers write in place of a shebang that the kernel would cut."""


@dataclass(frozen=True, slots=True)
class Program:
    """What an executable comes to."""

    python: str | None
    """The interpreter's path as it is called; None where none was found."""
    prefix: str
    """The folder of its environment."""
    scripts: tuple[str, ...]
    """Files that run before the interpreter, and the script that it is given: the executable itself comes first."""
    remarks: tuple[str, ...] = ()
    """What could not be followed, in words."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What is known of an interpreter."""

    version: str | None
    """`CPython 3.12.14`."""
    build: str | None
    """How and when it was built: what stands behind the number in `sys.version`."""
    folders: tuple[str, ...]
    """Where it looks for packages, as they come in sys.path."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Venv:
    prefix: str
    system: bool
    """It sees the packages of the interpreter that it was made with."""
    said: Mapping[str, str] = field(default_factory=dict[str, str])


def program_of(executable: str, path: str | None = None) -> Program:
    """Follow `executable` to its interpreter: by its shebang, through wrappers in shell. `path` is the PATH for
    `env python3`."""
    scripts: list[str] = []
    current = executable
    for _ in range(LONGEST_CHAIN):
        content = _start(current)
        if content is None:
            return _program(None, executable, scripts, f"{current} cannot be read")
        if not content.startswith(b"#!"):
            python = current if _PYTHON.fullmatch(os.path.basename(current)) else _beside(current)
            if current not in scripts and python != current:
                scripts.append(current)
            return _program(python, executable, scripts, f"{current} is no script, and no Python stands beside it")
        scripts.append(current)
        interpreter = _shebang(content, path)
        long = _LONG.search(content)
        if long is not None:
            interpreter = os.fsdecode(long.group(1))
        if _PYTHON.fullmatch(os.path.basename(interpreter)):
            return _program(interpreter, executable, scripts, "")
        following = _called(content) if os.path.basename(interpreter) in _SHELLS else None
        if following is None or following in scripts:
            remark = f"{current} names no vllm and no Python that could be followed"
            return _program(_beside(current), executable, scripts, remark)
        if _PYTHON.fullmatch(os.path.basename(following)):
            return _program(following, executable, scripts, "")
        current = following
    return _program(_beside(current), executable, scripts, f"{executable} calls one wrapper after the other")


def interpreter_of(program: Program, python_path: str = "", home: str | None = None) -> Interpreter:
    """Version and folders of a program's interpreter; `python_path` is the PYTHONPATH that it will be given.

    It is run once, for the time that it takes to answer. Without one, what stands below the prefix counts.
    """
    venv = _venv(program)
    first = tuple(one for one in python_path.split(":") if os.path.isabs(one) and os.path.isdir(one))
    answer = None if program.python is None else _asked(program.python, (venv.prefix,) if venv else (), home)
    if answer is None:
        remarks: tuple[str, ...] = ()
        said = venv.said.get("version_info") or venv.said.get("version") if venv else None
        if program.python is not None:
            word = "its version is what pyvenv.cfg says of the day it was made" if said else "its version is not known"
            remarks = (f"the interpreter {program.python} does not answer: {word}",)
        found = sorted(glob(f"{escape(program.prefix)}/lib/python3*/site-packages"))
        folders = _with_added((*first, *found))
        return Interpreter(None if said is None else f"Python {said}", None, folders, remarks)
    folders = list(answer.folders) if venv else []
    if venv is None or venv.system:
        folders += [answer.user, *answer.base]
    present = tuple(folder for folder in dict.fromkeys((*first, *folders)) if os.path.isdir(folder))
    return Interpreter(f"{answer.name} {answer.version}", answer.build, _with_added(present))


@dataclass(frozen=True, slots=True)
class _Answer:
    name: str
    version: str
    build: str
    folders: tuple[str, ...]
    base: tuple[str, ...]
    user: str


def _asked(python: str, prefixes: Sequence[str], home: str | None) -> _Answer | None:
    environment = {"PATH": os.defpath, "HOME": home or os.path.expanduser("~"), "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _ASK, *prefixes],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WITHIN,
            check=True,
        )
        said: object = json.loads(done.stdout[:LARGEST_SCRIPT])
    except (OSError, subprocess.SubprocessError, ValueError, RecursionError):
        return None
    if not isinstance(said, list) or len(answer := cast("list[object]", said)) != 6:
        return None
    name, version, full, user = (item if isinstance(item, str) else "" for item in (*answer[:3], answer[5]))
    build = full.removeprefix(version).strip().replace("\n", " ").strip("()").replace(") [", ", ").rstrip("]")
    return _Answer(name[:40], version[:40], build[:200], _texts(answer[3]), _texts(answer[4]), user)


def _texts(items: object) -> tuple[str, ...]:
    listed = cast("list[object]", items) if isinstance(items, list) else []
    return tuple(item for item in listed if isinstance(item, str) and os.path.isabs(item))


def _program(python: str | None, executable: str, scripts: Sequence[str], remark: str) -> Program:
    remarks = (remark,) if remark and python is None else ()
    found = python if python is not None else executable
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(found)))
    program = Program(python, prefix, tuple(scripts), remarks)
    venv = _venv(program)
    if venv is not None:
        return Program(python, venv.prefix, program.scripts, remarks)
    real = os.path.dirname(os.path.dirname(os.path.realpath(found)))
    return Program(python, real, program.scripts, remarks)


def _venv(program: Program) -> _Venv | None:
    """The virtual environment of an interpreter; links are followed one by one, as Python itself looks for pyvenv.cfg
    beside its path and above it."""
    path = program.python or os.path.join(program.prefix, "bin", "python")
    for _ in range(16):
        for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
            content = _start(os.path.join(folder, "pyvenv.cfg"))
            if content is not None:
                return _settings(folder, content)
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return None
    return None


def _settings(folder: str, content: bytes) -> _Venv:
    said: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        key, equals, value = line.partition("=")
        if equals:
            said[key.strip().lower()] = value.strip()[:200]
    return _Venv(folder, said.get("include-system-site-packages", "false").lower() == "true", said)


def _shebang(content: bytes, path: str | None) -> str:
    words = os.fsdecode(content[2:512].partition(b"\n")[0]).split()
    if not words:
        return ""
    if os.path.basename(words[0]) != "env":
        return words[0]
    named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return (shutil.which(named[0], path=path) or named[0]) if named else ""


def _called(content: bytes) -> str | None:
    """The last vllm or Python that a script in shell names by its path, comments aside: what it comes to at its end.

    An environment that it activates has its Python beside the script for that.
    """
    lines = content.decode("utf-8", "replace").splitlines()
    named = [found for line in lines if not line.lstrip().startswith("#") for found in _TARGET.findall(line)]
    there = [one for one in named if os.path.isfile(one)]
    runs = [one for one in there if not one.endswith("/activate")]
    if runs:
        return runs[-1]
    beside = (os.path.join(os.path.dirname(one), name) for one in reversed(there) for name in ("vllm", "python"))
    return next((one for one in beside if os.path.isfile(one)), None)


def _beside(path: str) -> str | None:
    """The Python in the folder of a program."""
    python = os.path.join(os.path.dirname(path), "python")
    return python if os.access(python, os.X_OK) else None


def _start(path: str) -> bytes | None:
    """What a file begins with; None where there is none that can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        try:
            # No more than there is: a buffer is made as large as is asked for.
            return file.read(min(os.fstat(descriptor).st_size, LARGEST_SCRIPT)) or b""
        except OSError:  # a folder
            return None


def _with_added(folders: Sequence[str]) -> tuple[str, ...]:
    """The folders, and those that the .pth files in them add: what is installed as editable, say (site module)."""
    added: list[str] = []
    for folder in folders:
        for file in sorted(glob(f"{escape(folder)}/*.pth")):
            content = _start(file) or b""
            for line in content.decode("utf-8", "replace").splitlines():
                text = line.strip()
                if not text or text.startswith(("#", "import ", "import\t")) or "\0" in text:
                    continue
                place = os.path.normpath(os.path.join(folder, text))
                if os.path.isdir(place):
                    added.append(place)
    return tuple(dict.fromkeys((*folders, *added[:MOST_ADDED])))
