"""What a launch makes on the file system beside its log, sockets, temporary files, shared memory: it goes with it.

vLLM gives its ZMQ sockets, and the file that its workers meet at, a random name in the temporary folder. The sockets
it leaves there however it ends, the file when it is killed. So each launch gets folders of its own. The names of its
shared memory (/dev/shm/psm_...) nobody can choose: they are noted while a process of the launch maps it.

    STATUS_PATH without .json/      the folder of the launch: its sockets, and what follows
        temporary -> TMP/arcops-UID-LAUNCH      its temporary files; sockets too, where the way here is too long;
                                                    compile caches, where it is to have fresh ones
        sockets -> /tmp/arcops-UID-LAUNCH       its sockets, where both ways are too long
        shared-memory                           the noted names, a line each: inode, name
"""

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

from arcops.machine import proc

SOCKETS = "VLLM_RPC_BASE_PATH"
"""Where vLLM makes its sockets; the temporary folder where it is not set (vllm/envs.py)."""
TEMPORARY = "TMPDIR"
"""Where Python, and with it vLLM and torch, make temporary files."""
COMPILED = "TORCHINDUCTOR_CACHE_DIR"
"""What torch has compiled, by default in the temporary folder: a cache, which the next launch is to find."""
CACHES: Mapping[str, str] = {
    "VLLM_CACHE_ROOT": "vllm",
    COMPILED: "inductor",
    "TRITON_CACHE_DIR": "triton",
    "DG_JIT_CACHE_DIR": "deep-gemm",
    "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": "flashinfer-autotune",
    "CUDA_CACHE_PATH": "cuda",
    "SYCL_CACHE_DIR": "sycl",
    "NEO_CACHE_DIR": "compute-runtime",
}
"""Where what was compiled or tuned for a model, or its card, is kept and found again by the next launch: by variable
the folder of vLLM (vllm/envs.py: torch.compile, model information, start-up plans), torch's inductor, Triton, DeepGEMM,
vLLM's tuning of FlashInfer, CUDA's driver, SYCL, and Intel's compute runtime. Not among them is what is the same
whatever is launched: downloads (VLLM_ASSETS_CACHE), FlashInfer's own kernels."""
LONGEST_SOCKET = 107
"""Bytes of the path of a Unix socket (unix(7): 108 with the zero at its end)."""
_SOCKET_NAME = 37
"""Bytes of a slash and a UUID."""
_LAUNCH = re.compile(r"[0-9]{14}-[0-9a-f]+")
_TEMPORARY, _SOCKETS, _NOTE = "temporary", "sockets", "shared-memory"
_CACHES = "caches"
SHORT = "/tmp"  # noqa: S108 - short on every machine, and what is made there is for this user alone
"""Where sockets go when no other way is short enough."""
_SHARED = "/dev/shm/"  # noqa: S108 - where the kernel has it
_MADE_BY_VLLM = re.compile(r"(psm_[0-9a-f]+|sem\.(mp|loky)-[\w-]+|torch_\w+|vllm_[\w.-]+|nccl-\w+)")
"""Shared memory of Python's, joblib's, torch's, vLLM's and NCCL's making. What has another name (weights that somebody
has laid there) is only used by a launch, and is not its to lose."""

ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType]


@dataclass(frozen=True, slots=True)
class Made:
    """What was made for a launch."""

    variables: Mapping[str, str]
    """To be added to its environment."""
    elsewhere: str | None = None
    """Where the sockets are, if not in the folder, and why, in words."""
    lost: str | None = None
    """What will be left behind, and why, in words; None when nothing will."""


def of(status_path: str) -> str:
    """The folder of the launch whose keeper writes `status_path`."""
    return os.path.splitext(status_path)[0]


def make(folder: str, environment: Mapping[str, str], own: Collection[str], *, fresh_caches: bool = False) -> Made:
    """Make the folders of a launch. `own`: variables that its profile sets, and that are left alone.

    With `fresh_caches` it has empty compile caches, whatever the profile sets; raises OSError where it cannot have
    these. The others it may lack: it leaves its things where it otherwise would.
    """
    variables: dict[str, str] = {}
    try:
        os.mkdir(folder, 0o700)
        if TEMPORARY not in own or fresh_caches:
            variables |= _make_temporary(folder, environment, own)
        if fresh_caches:
            variables |= _make_caches(folder)
    except OSError as error:
        if fresh_caches:
            raise
        return Made(variables, lost=f"the folder of the launch cannot be made: {error.strerror}: {error.filename}")
    if SOCKETS in environment:
        return Made(variables)
    if _has_room(folder):
        return Made(variables | {SOCKETS: folder})
    why = f"a socket in {folder} would have more than {LONGEST_SOCKET} bytes in its path"
    place = variables.get(TEMPORARY)
    if place is not None and _has_room(place):
        return Made(variables | {SOCKETS: place}, elsewhere=f"the launch's sockets are in {place}: {why}")
    try:
        place = _make_linked(folder, _SOCKETS, SHORT)
    except OSError as error:
        # The launch's own temporary folder is too long as well: a vLLM that was left to itself would not start.
        lost = f"vLLM's sockets stay in {SHORT}: {why}, and none can be made there for it: {error.strerror}"
        return Made(variables | {SOCKETS: SHORT}, lost=lost)
    return Made(variables | {SOCKETS: place}, elsewhere=f"the launch's sockets are in {place}: {why}")


def _make_temporary(folder: str, environment: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """The temporary folder, below the usual one: its files may be large, and the runtime directory is memory."""
    usual = os.path.abspath(environment.get(TEMPORARY) or tempfile.gettempdir())
    place = _make_linked(folder, _TEMPORARY, usual)
    if TEMPORARY in own:
        # Made for the caches alone.
        return {}
    kept = {} if COMPILED in environment else {COMPILED: os.path.join(usual, f"torchinductor_{_user(environment)}")}
    return {TEMPORARY: place, **kept}


def _make_caches(folder: str) -> dict[str, str]:
    """Empty compile caches in the launch's temporary folder, which goes with it. Raises OSError."""
    below = os.path.join(os.readlink(os.path.join(folder, _TEMPORARY)), _CACHES)
    os.mkdir(below, 0o700)
    made = {variable: os.path.join(below, name) for variable, name in CACHES.items()}
    for place in made.values():
        os.mkdir(place, 0o700)
    return made


def _make_linked(folder: str, name: str, below: str) -> str:
    """A folder of the launch's in another place, which the link `name` in its own leads to. Raises OSError."""
    place = os.path.join(below, f"arcops-{os.getuid()}-{os.path.basename(folder)}")
    # In this order: whoever finds the link finds what it leads to, made or not.
    link = os.path.join(folder, name)
    os.symlink(place, link)
    try:
        os.mkdir(place, 0o700)
    except OSError:
        # There: another instance's, whose launch has the same id, or anybody's, and not ours to remove.
        os.unlink(link)
        raise
    return place


def _user(environment: Mapping[str, str]) -> str:
    """As torch finds it (torch/_inductor/runtime/cache_dir_utils.py, getpass)."""
    named = (environment.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME"))
    return re.sub(r'[\\/:*?"<>|]', "_", next(filter(None, named), None) or proc.user_name(os.getuid()))


def _has_room(place: str) -> bool:
    return len(os.fsencode(place)) + _SOCKET_NAME <= LONGEST_SOCKET


def note_shared(folder: str, pids: Iterable[int], since: float) -> None:
    """Note what these processes map of the shared memory that was made `since` (seconds since the epoch) or later.

    May wait for a process that hangs in the kernel. Raises OSError where it cannot be written down, or, after all that
    can be noted is, where not all of it can be read.
    """
    known, mapped, unread = _noted(folder), set[int](), None
    for pid in pids:
        try:
            mapped |= {inode for inode, path in proc.mappings(pid) if path.startswith(_SHARED)}
        except PermissionError as error:
            unread = error
    every = ((entry.inode(), entry.path) for entry in os.scandir(_SHARED))
    ours = {(inode, path) for inode, path in every if inode in mapped and _is_a_launchs(path, inode, since)}
    if not ours <= known:
        staged = os.path.join(folder, f"{_NOTE}.new")
        with open(staged, "w", encoding="utf-8") as file:
            file.writelines(f"{inode} {path}\n" for inode, path in sorted(known | ours))
        os.replace(staged, os.path.join(folder, _NOTE))
    if unread is not None:
        raise unread


def _noted(folder: str) -> set[tuple[int, str]]:
    try:
        with open(os.path.join(folder, _NOTE), encoding="utf-8", errors="replace") as file:
            pairs = [line.rstrip("\n").partition(" ") for line in file]
    except OSError:
        return set()
    return {(int(inode), path) for inode, _, path in pairs if inode.isdigit()}


def _is_a_launchs(path: str, inode: int, since: float) -> bool:
    """Of its making: by its name, for this user, and not before it."""
    if not _MADE_BY_VLLM.fullmatch(path.removeprefix(_SHARED)):
        return False
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_ino == inode and found.st_uid == os.getuid() and found.st_ctime >= since


def remove(folder: str) -> None:
    """Remove all that a launch has left, whose processes are gone; harmless where there is nothing. Raises OSError.

    A folder with another name than a launch's is refused, and one below which a file system is mounted.
    """
    if not _LAUNCH.fullmatch(os.path.basename(folder)):
        raise OSError(errno.EINVAL, "no folder of a launch", folder)
    for inode, path in _noted(folder):
        if _is_a_launchs(path, inode, since=0.0):
            with suppress(FileNotFoundError):
                os.unlink(path)
    for place in _linked(folder):
        _remove_tree(place)
    _remove_tree(folder)


def _linked(folder: str) -> tuple[str, ...]:
    """Where the links lead, if to such folders as are made above."""
    found: list[str] = []
    for name in (_TEMPORARY, _SOCKETS):
        with suppress(OSError):
            found.append(os.readlink(os.path.join(folder, name)))
    made = f"arcops-{os.getuid()}-{os.path.basename(folder)}"
    return tuple(place for place in found if os.path.basename(place) == made)


def _remove_tree(place: str) -> None:
    """One of our own; a link, or what is another's, is left alone. Another thread may be removing it as well."""
    try:
        found = os.lstat(place)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    real = os.path.realpath(place)
    if any(f"{mount}/".startswith(f"{real}/") for mount in proc.mounts()):
        raise OSError(errno.EBUSY, "a file system is mounted there", place)
    shutil.rmtree(place, onerror=_unless_gone)


def _unless_gone(_remove: Callable[..., object], _path: str, error: ExcInfo) -> None:
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


def left(directory: str) -> tuple[str, ...]:
    """The folders of launches in the directory of their status files, oldest first; empty where there is none."""
    try:
        names = sorted(name for name in os.listdir(directory) if _LAUNCH.fullmatch(name))
    except OSError:
        return ()
    return tuple(path for path in (os.path.join(directory, name) for name in names) if os.path.isdir(path))


def in_use(folder: str) -> bool:
    """Whether a process has a socket there. Raises OSError where it cannot be known."""
    places = tuple(f"{one}/" for one in (folder, *_linked(folder)))
    return any(path.startswith(places) for path in proc.unix_sockets())
