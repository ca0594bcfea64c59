"""Collects a report: what each part is, where it comes from, and how much of it is taken."""

import asyncio
import json
import os
import platform
import pwd
import resource
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import arcops
from arcops import wire
from arcops.cards.own import OwnLook
from arcops.client import Client
from arcops.config.paths import DEFAULT_INSTANCE, Paths
from arcops.core.errors import ArcopsError, ExitCode, NoDaemonError
from arcops.core.launch import hidden
from arcops.core.quantity import Known
from arcops.machine import files, history, host, kernel_log, linger, packages, proc, process
from arcops.machine.gpu import find_cards
from arcops.machine.vllm import VllmServer
from arcops.report.bundle import Bundle
from arcops.report.hiding import Hider
from arcops.report.sources import Sources, read_sources

MOST_EVENTS = 2_000
MOST_KERNEL_LINES = 2_000
MOST_LOGS = 5
LOG_BYTES = 512 * 1024
"""Of the end of each log."""
MOST_EVIDENCE = 3
"""Folders of evidence, the newest."""
MOST_EVIDENCE_FILES = 40
EVIDENCE_BYTES = 256 * 1024
ANSWER_WITHIN = 5.0
"""Seconds for each answer of the daemon, and of systemctl."""
VERSION_WITHIN = 20.0
"""Seconds for `vllm --version`, which imports torch."""
_MOST_LISTED = 500
_MOST_PROCESSES = 200
_UNIT = "Id,LoadState,ActiveState,SubState,Result,UnitFileState,FragmentPath,DropInPaths,MainPID,NRestarts,StatusText"
_UNIT_MORE = "ExecMainStartTimestamp,ExecMainExitTimestamp,ExecMainCode,ExecMainStatus,MemoryCurrent,TasksCurrent"


def collect(paths: Paths, env: Mapping[str, str], launch: str | None = None) -> Bundle:
    """Everything there is about an instance; with `launch`, of the logs and the evidence only that launch's.

    Raises ArcopsError only where `launch` names none.
    """
    known = _launches(paths)
    if launch is not None and launch not in known:
        raise ArcopsError(
            f"there is no log of a launch {launch[:60]!r}",
            hint="`arcops events` names the launches",
            exit_code=ExitCode.USAGE,
        )
    sources = read_sources(paths, env)
    bundle = Bundle(Hider(sources.secrets))
    for name, why in sources.unread.items():
        bundle.lacks(name, why)
    daemon = _of_the_daemon(bundle, paths)
    _of_the_backend(bundle, sources, paths)
    pids = sources.pids if daemon is None else (daemon, *sources.pids)
    bundle.attempt("processes.txt", lambda: bundle.add("processes.txt", _processes(pids)))
    bundle.attempt("host/limits.txt", lambda: bundle.add("host/limits.txt", _limits(pids)))
    for one in [launch] if launch is not None else known[-MOST_LOGS:]:
        bundle.attempt(f"logs/{one}.log", partial(_log, bundle, paths, one))
    if not known:
        bundle.lacks("logs", "there is no log of a launch")
    bundle.attempt("evidence", lambda: _evidence(bundle, paths.state_dir / "evidence", launch))
    for name, text in sources.config.items():
        bundle.add_yaml(name, text)
    _of_the_machine(bundle, sources, paths, env)
    return bundle


# -- the daemon and its history ---------------------------------------------------------------------------------------
def _of_the_daemon(bundle: Bundle, paths: Paths) -> int | None:
    """The daemon's pid, if it answers."""
    found: list[int] = []

    def status() -> None:
        _connect(paths.socket)
        said = client.status()
        found.append(said.daemon.pid)
        bundle.add("status.json", _pretty(wire.encode(said)))

    with Client(paths.socket, within=ANSWER_WITHIN) as client:
        bundle.attempt("status.json", status)
        if found:
            bundle.attempt("metrics/arcops.txt", lambda: bundle.add("metrics/arcops.txt", client.metrics()))
            cards = partial(client.cards, everybody=True)
        else:
            bundle.lacks("metrics/arcops.txt", "the daemon does not answer")
            cards = OwnLook(paths).look
        bundle.attempt("cards.json", lambda: bundle.add("cards.json", _pretty(wire.encode(cards()))))
        bundle.attempt("events.jsonl", lambda: _history(bundle, paths))
        if found and "events.jsonl" in bundle.missing:
            bundle.attempt("events-of-the-daemon.jsonl", lambda: _events_from(bundle, client))
    return found[0] if found else None


def _connect(path: Path) -> None:
    """Raise NoDaemonError unless somebody listens there. Not left to httpcore, which leaks the socket when it fails."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(ANSWER_WITHIN)
            probe.connect(str(path))
    except OSError as error:
        raise NoDaemonError(f"no daemon answers on {path}: {error.strerror or error}") from error


def _history(bundle: Bundle, paths: Paths) -> None:
    rows = history.read(str(paths.database), MOST_EVENTS)
    note = f"the last {MOST_EVENTS}" if len(rows.events) == MOST_EVENTS else ""
    bundle.add("events.jsonl", _lines_of(rows.events), note)
    bundle.add("orders.jsonl", _lines_of(rows.orders))
    bundle.add("loads.jsonl", _lines_of(rows.launches))


def _events_from(bundle: Bundle, client: Client) -> None:
    page = client.events(after=-MOST_EVENTS, limit=MOST_EVENTS)
    text = "".join(wire.encode(event).decode() + "\n" for event in page.events)
    bundle.add("events-of-the-daemon.jsonl", text)


def _lines_of(rows: Iterable[history.Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _pretty(content: bytes) -> str:
    return json.dumps(json.loads(content), indent=1, ensure_ascii=False) + "\n"


# -- the backend ------------------------------------------------------------------------------------------------------
def _of_the_backend(bundle: Bundle, sources: Sources, paths: Paths) -> None:
    if sources.record_text is not None:
        text = sources.record_text
        bundle.attempt("launch.json", lambda: bundle.add("launch.json", _indented(text)))
    elif "launch.json" not in bundle.missing:
        bundle.lacks("launch.json", "there is no launch record: nothing was launched in this boot, or all is cleared")
    if sources.environment:
        shown = {name: hidden(name, value) for name, value in sorted(sources.environment.items())}
        bundle.add_json("environment.json", shown)
    elif "environment.json" not in bundle.missing:
        bundle.lacks("environment.json", "no main process lives; what the profile adds stands in launch.json")
    bundle.attempt("keeper", lambda: _keeper(bundle, paths))
    if sources.launch is None:
        bundle.lacks("metrics/vllm.txt", "there is no backend to ask")
        return
    host_name, port = sources.launch.host, sources.launch.port
    bundle.attempt("metrics/vllm.txt", lambda: _backend_metrics(bundle, host_name, port))


def _indented(text: str) -> str:
    """JSON over several lines, where it is JSON: a torn record is wanted as it is."""
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
    except (ValueError, RecursionError):
        return text


def _keeper(bundle: Bundle, paths: Paths) -> None:
    for path in sorted(paths.keeper_dir.iterdir()):
        if path != paths.record and path.suffix == ".json":
            name = f"keeper/{path.name}"
            bundle.attempt(name, partial(_add_start, bundle, name, path, EVIDENCE_BYTES))


def _add_start(bundle: Bundle, name: str, path: Path, most: int) -> None:
    bundle.add_part(name, files.start(path, most, follow=False))


def _processes(pids: Sequence[int]) -> str:
    """The daemon, the backend and whatever descends from them, as the kernel shows them."""
    every = list(proc.every_stat())
    wanted = set(pids).union(*(proc.below(pid, every) for pid in pids))
    lines = [
        f"{one.pid} parent {one.parent} session {one.session} state {one.state} threads {one.threads} "
        f"ticks {one.ticks} start {one.start} {one.command}: {_command_line(one.pid)}"
        for one in sorted(every, key=lambda one: one.pid)
        if one.pid in wanted
    ]
    return "\n".join(lines[:_MOST_PROCESSES] or ["neither a daemon nor a backend is known"]) + "\n"


def _command_line(pid: int) -> str:
    try:
        content = files.start(Path(proc.ROOT) / str(pid) / "cmdline", EVIDENCE_BYTES).content
    except OSError as error:
        return f"({error.strerror})"
    return content.decode("utf-8", "replace").replace("\0", " ").strip()


def _backend_metrics(bundle: Bundle, host_name: str, port: int) -> None:
    async def ask() -> str:
        async with VllmServer(host_name, port, None, now=time.monotonic) as server:
            reading = await server.metrics()
        if isinstance(reading, Known):
            return reading.value
        raise ArcopsError(reading.reason)

    bundle.add("metrics/vllm.txt", asyncio.run(ask()))


# -- logs and evidence ------------------------------------------------------------------------------------------------
def _launches(paths: Paths) -> list[str]:
    """Every launch that has a log, oldest first: launch ids sort by time."""
    try:
        return sorted(name[:-4] for name in os.listdir(paths.log_dir) if name.endswith(".log"))
    except OSError:
        return []


def _log(bundle: Bundle, paths: Paths, launch: str) -> None:
    bundle.add_part(f"logs/{launch}.log", files.end(paths.log_dir / f"{launch}.log", LOG_BYTES, follow=False))


def _evidence(bundle: Bundle, root: Path, launch: str | None) -> None:
    """The newest folders that the supervisor kept of what went wrong; each with the files that lie in it."""
    if not root.exists():
        bundle.lacks("evidence", "none was kept: no backend was found hanging")
        return
    found = [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
    if launch is not None:
        found = [path for path in found if launch in path.name]
    ordered = sorted(found, key=lambda path: (path.stat().st_mtime, path.name))
    for folder in ordered[-MOST_EVIDENCE:]:
        inside = sorted(path for path in folder.rglob("*") if not path.is_dir())
        for path in inside[:MOST_EVIDENCE_FILES]:
            name = f"evidence/{path.relative_to(root)}"
            bundle.attempt(name, partial(_add_start, bundle, name, path, EVIDENCE_BYTES))
        if len(inside) > MOST_EVIDENCE_FILES:
            bundle.lacks(f"evidence/{folder.name}", f"{len(inside) - MOST_EVIDENCE_FILES} more files")
    if len(ordered) > MOST_EVIDENCE:
        bundle.lacks("evidence", f"{len(ordered) - MOST_EVIDENCE} older folders")


# -- the machine ------------------------------------------------------------------------------------------------------
def _of_the_machine(bundle: Bundle, sources: Sources, paths: Paths, env: Mapping[str, str]) -> None:
    parts = {
        "host/system.json": lambda: bundle.add_json("host/system.json", _system()),
        "host/disk.txt": lambda: bundle.add("host/disk.txt", host.disk([paths.state_dir, paths.runtime_dir]) + "\n"),
        "host/gpu.txt": lambda: bundle.add("host/gpu.txt", f"{host.gpu_nodes()}\n{_cards()}\n"),
        "host/files.txt": lambda: bundle.add("host/files.txt", _listing(paths)),
        "host/units.txt": lambda: bundle.add("host/units.txt", _units(paths, env)),
        "host/kernel.txt": lambda: _kernel(bundle),
        "host/memory.txt": lambda: bundle.add_part("host/memory.txt", files.start(Path("/proc/meminfo"), 65536)),
    }
    for name, work in parts.items():
        bundle.attempt(name, work)
    named = sources.runtimes[:1] if sources.launch is None else (sources.launch.argv[0],)
    if not named:
        bundle.lacks("runtime", "no launch record and no runtime in site.yaml say which vllm")
        return
    vllm = named[0]
    bundle.attempt("runtime/version.txt", lambda: bundle.add("runtime/version.txt", _version(vllm, env)))
    bundle.attempt("runtime/packages.json", lambda: _packages(bundle, vllm))


def _system() -> dict[str, object]:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    lingering = linger.lingering(user)
    return {
        "arcops": arcops.__version__,
        "arcops_from": str(Path(arcops.__file__).parent),
        "arcops_packages": packages.installed(tuple(Path(path) for path in sys.path if path.endswith("-packages"))),
        "python": sys.version,
        "kernel": " ".join(platform.uname()[index] for index in (0, 2, 3, 4)),
        "distribution": _os_release(),
        "processors": os.cpu_count(),
        "uptime_seconds": round(time.clock_gettime(time.CLOCK_BOOTTIME)),
        "boot_id": process.boot_id(),
        "lingering": lingering.value if isinstance(lingering, Known) else f"unknown: {lingering.reason}",
    }


def _os_release() -> dict[str, str]:
    try:
        return dict(platform.freedesktop_os_release())
    except OSError as error:
        return {"unknown": str(error)}


def _limits(pids: Sequence[int]) -> str:
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"this command may open {own[0]} files (hard limit {own[1]})\n"
    for pid in pids:
        try:
            limits = files.start(Path(proc.ROOT) / str(pid) / "limits", EVIDENCE_BYTES).content.decode()
        except OSError as error:
            limits = error.strerror or str(error)
        text += f"== process {pid}\n{limits}\n"
    return text


def _kernel(bundle: Bundle) -> None:
    """The kernel's log of this boot, by whichever way this user may read it."""
    now = time.monotonic()
    reading = kernel_log.read(0.0, now)
    if not isinstance(reading, Known):
        reading = kernel_log.read_journal(0.0, now)
    if not isinstance(reading, Known):
        raise ArcopsError(reading.reason)
    lines = reading.value[-MOST_KERNEL_LINES:]
    note = "" if len(lines) == len(reading.value) else f"{len(lines)} of {len(reading.value)} lines"
    bundle.add("host/kernel.txt", "".join(f"[{line.at:12.6f}] {line.text}\n" for line in lines), note)


def _cards() -> str:
    return "\n".join(map(str, find_cards())) or "no display controller on the PCI bus"


def _listing(paths: Paths) -> str:
    """Names, sizes and modes of what the instance has; a mode says more than a message."""
    lines: list[str] = []
    for folder in (paths.runtime_dir, paths.keeper_dir, paths.state_dir, paths.log_dir, paths.config_dir):
        lines.append(f"== {folder}")
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            lines.append(f"({error.strerror})")
            continue
        for name in names[:_MOST_LISTED]:
            try:
                found = os.lstat(folder / name)
            except OSError as error:
                lines.append(f"{name}: {error.strerror}")
                continue
            lines.append(f"{found.st_mode:06o} {found.st_uid}:{found.st_gid} {found.st_size:>12} {name}")
    return "\n".join(lines) + "\n"


def _units(paths: Paths, env: Mapping[str, str]) -> str:
    units = [f"arcops@{paths.instance}.service"]
    if paths.instance == DEFAULT_INSTANCE:
        units.insert(0, "arcops.service")
    show = ["systemctl", "--user", "show", f"--property={_UNIT},{_UNIT_MORE}", *units]
    scopes = ["systemctl", "--user", "list-units", "--all", "--no-legend", "--plain", "arcops*"]
    return "\n".join(f"$ {' '.join(argv)}\n{_said(argv, env, ANSWER_WITHIN)}" for argv in (show, scopes))


def _version(executable: str, env: Mapping[str, str]) -> str:
    return f"$ {executable} --version\n{_said([executable, '--version'], env, VERSION_WITHIN)}"


def _said(argv: list[str], env: Mapping[str, str], within: float) -> str:
    said = host.ask(argv, env=env, timeout=within)
    ending = f"(no answer within {within:g} s)\n" if said.code is None else f"(exit code {said.code})\n"
    return f"{said.text.rstrip()}\n{ending}"


def _packages(bundle: Bundle, executable: str) -> None:
    folders = packages.beside(executable)
    if not folders:
        bundle.lacks("runtime/packages.json", f"{executable} stands in no virtual environment")
        return
    bundle.add_json("runtime/packages.json", packages.installed(folders))
