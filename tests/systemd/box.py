"""A box: a real systemd as PID 1 (logind, D-Bus, journald, polkit, user managers) on an overlay of this machine.

What happens in it stays in it: fresh namespaces, a cgroup and a folder on a tmpfs, and a guard that clears them away
when the test runner has ended, however it did. A boot takes a second, and so does a power cut.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.helpers import eventually
from tests.systemd.needs import SHM, cgroup_mount

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BOOT_WITHIN = 120.0
HALT_WITHIN = 200.0
"""Seconds. An idle machine takes 1 and 2."""
RUN_WITHIN = 180.0
"""Seconds for one command in the box."""
_UP = {"running", "degraded"}
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "SYSTEMD_COLORS": "0",
    "SYSTEMD_PAGER": "",
    "NO_COLOR": "1",
}


Done = subprocess.CompletedProcess[str]


class Box:
    """Use it with `with`. `binds` are shown in it besides this checkout and its Python, read-only.

    With `cards` the box has a PCI bus of its own, which holds nothing but them: empty Arc Pro B70s at these addresses.
    Those in `served` have a render node each, which answers as a driver does (`stand_in_cards.py`).
    """

    def __init__(self, binds: Sequence[Path] = (), cards: Sequence[str] = (), served: Sequence[str] = ()) -> None:
        mount = cgroup_mount()
        assert mount is not None
        self._cards = cards
        self._served = served
        self._binds = shown(binds)
        self.state = Path(tempfile.mkdtemp(prefix="arcops-box-", dir=SHM))
        self._cgroups = str(mount / self.state.name)
        self._guard = subprocess.Popen(
            ["bash", str(HERE / "box_guard.sh"), self._cgroups, str(self.state)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        for name in ("upper", "work", "root"):
            (self.state / name).mkdir()
        (self.state / "upper").chmod(0o755)
        (self.state / "console").touch()
        self._first: subprocess.Popen[bytes] | None = None
        self._cgroup = Path(self._cgroups)
        self._boots = 0
        self.pid = 0
        """Of the box's systemd, as the host counts."""

    # -- life ---------------------------------------------------------------------------------------------------------
    def __enter__(self) -> Self:
        try:
            self.boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def boot(self) -> float:
        """Switch it on, and wait until it is up; seconds that took."""
        assert self._first is None
        began = time.monotonic()
        self._boots += 1
        self._cgroup = Path(f"{self._cgroups}-{self._boots}")
        self._cgroup.mkdir()
        _delegate(self._cgroup)
        into = 'echo $$ >"$0/cgroup.procs" && exec setpriv --pdeathsig SIGKILL unshare "$@"'
        namespaces = ("--mount", "--pid", "--cgroup", "--ipc", "--uts", "--net", "--propagation", "private")
        script = (str(HERE / "box_init.sh"), str(self.state), "yes" if self._cards else "no")
        command = (*namespaces, "--fork", "--kill-child=SIGKILL", "bash", *script, *map(str, self._binds))
        with (self.state / "console").open("ab") as console:
            self._first = subprocess.Popen(
                ["bash", "-c", into, str(self._cgroup), *command],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        self.pid = eventually(self._systemd, within=BOOT_WITHIN, why="no systemd in the box")
        eventually(self._is_up, within=BOOT_WITHIN, every=0.05, why=f"the box does not come up: {self._console()}")
        self._open_ways()
        for card in self._cards:
            self._plug_in(card)
        if self._served:
            self._serve()
        return time.monotonic() - began

    def halt(self) -> float:
        """An orderly shutdown, in which every unit is stopped; seconds that took."""
        assert self._first is not None
        began = time.monotonic()
        os.kill(self.pid, signal.SIGRTMIN + 3)  # halt.target, systemd(1); in a PID namespace systemd then exits
        self._first.wait(HALT_WITHIN)
        self.cut_power()
        return time.monotonic() - began

    def cut_power(self) -> None:
        """Every process is gone at once."""
        assert self._first is not None
        (self._cgroup / "cgroup.kill").write_text("1")
        self._first.wait()
        eventually(lambda: "populated 0" in (self._cgroup / "cgroup.events").read_text(), within=90.0)
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            os.rmdir(folder)
        self._first, self.pid = None, 0

    def reboot(self, *, hard: bool = False) -> None:
        """Off, in order or by a power cut, and on again. What was on disk is there again, /run and /tmp are empty."""
        if hard:
            self.cut_power()
        else:
            self.halt()
        self.boot()

    def close(self) -> None:
        """End it, and wait until nothing of it is left on the host."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        if self._first is not None:
            self._first.wait()
            self._first = None

    def _systemd(self) -> int | None:
        """The pid of the first process, once it has become systemd."""
        assert self._first is not None
        if self._first.poll() is not None:
            raise RuntimeError(f"the box died when it was switched on: {self._console()}")
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text().split()
        if not children or Path(f"/proc/{children[0]}/comm").read_text().strip() != "systemd":
            return None
        return int(children[0])

    def _is_up(self) -> bool:
        return self.root("systemctl", "is-system-running", check=False).stdout.strip() in _UP

    def _console(self) -> str:
        return (self.state / "console").read_text(errors="replace")[-2000:]

    def _open_ways(self) -> None:
        """Let users of the box pass to what is shown to them, wherever it lies; a matter of the overlay alone."""
        interpreter = Path(sys.executable).resolve()
        for path in {ROOT, Path(sys.prefix), interpreter, *self._binds}:
            for above in path.parents:
                self.root("sh", "-c", 'test -k "$1" || chmod o+x "$1"', "sh", str(above), check=False)

    def _plug_in(self, address: str) -> None:
        driver, place = "/sys/bus/pci/drivers/xe", f"/sys/bus/pci/devices/{address}"
        self.root("mkdir", "-p", driver, place)
        for name, text in (("class", "0x030000"), ("vendor", "0x8086"), ("device", "0xe223")):
            self.write(f"{place}/{name}", f"{text}\n")
        self.root("ln", "-s", driver, f"{place}/driver")

    def _serve(self) -> None:
        """Make the cards' render nodes, and wait until they are there."""
        nodes = [self.node(card) for card in self._served]
        for card, node in zip(self._served, nodes, strict=True):
            self.root("mkdir", "-p", f"/sys/bus/pci/devices/{card}/drm/{node}", "/dev/dri")
        driver = (sys.executable, "-I", "-S", str(HERE / "stand_in_cards.py"), "/dev/dri", "xe", *nodes)
        self.root("systemd-run", "-q", "--unit=stand-in-cards", *driver)
        eventually(lambda: self.exists(f"/dev/dri/{nodes[-1]}"), within=BOOT_WITHIN, why="no render nodes")

    def node(self, card: str) -> str:
        """Name of the render node of a card that is served."""
        return f"renderD{128 + list(self._served).index(card)}"

    # -- commands in it -----------------------------------------------------------------------------------------------
    def root(self, *argv: str, check: bool = True, stdin: str | None = None, within: float = RUN_WITHIN) -> Done:
        """As root, beside all units and sessions."""
        return self._run(argv, _ENVIRONMENT, check, stdin, within)

    def user(
        self,
        name: str,
        *argv: str,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        stdin: str | None = None,
        within: float = RUN_WITHIN,
    ) -> Done:
        """As a user with the environment of a login, but without a session: what `sudo -u` or a cron job sees."""
        command = ("setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups", *argv)
        return self._run(command, {**self.environment(name), **(env or {})}, check, stdin, within)

    def beside(self, *argv: str) -> "subprocess.Popen[str]":
        """A process of the host that has the box's network and nothing else of it, as a client on another machine.

        A shutdown of the box does not end it. Its end is the caller's to see to.
        """
        return subprocess.Popen(
            ["nsenter", "--target", str(self.pid), "--net", "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextmanager
    def login(self, name: str) -> Generator[None]:
        """A login session of the user: logged in within, logged out after."""
        unit = f"login-{name}.service"
        own = (f"--uid={name}", "-p", "PAMName=login", "-p", "KillMode=control-group")
        self.root("systemd-run", "-q", "--collect", f"--unit={unit}", *own, "--", "sleep", "infinity")
        try:
            eventually(lambda: self.manager_runs(name), within=90.0, why=f"no user manager of {name}")
            yield
        finally:
            self.root("systemctl", "stop", unit)

    def ctl(self, name: str, *argv: str, check: bool = True, within: float = RUN_WITHIN) -> Done:
        """`systemctl --user` of a user."""
        return self.user(name, "systemctl", "--user", "--no-pager", *argv, check=check, within=within)

    def show(self, name: str | None, unit: str, *properties: str) -> dict[str, str]:
        """Properties of a unit of the user, or of the system (None)."""
        asked = ("show", unit, "-p", ",".join(properties))
        text = (self.root("systemctl", *asked) if name is None else self.ctl(name, *asked)).stdout
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def journal(self, unit: str, user: str | None = None) -> str:
        """What a unit and systemd said about it, over all boots."""
        match = (f"--unit={unit}",)
        if user is not None:  # journalctl's own --user-unit means those of whoever asks
            uid = f"_UID={self.uid(user)}"
            match = (f"_SYSTEMD_USER_UNIT={unit}", uid, "+", f"USER_UNIT={unit}", uid)
        self.root("journalctl", "--sync")
        return self.root("journalctl", "-q", "--no-pager", "-o", "cat", *match).stdout

    def manager_runs(self, name: str) -> bool:
        """Whether the user's own systemd is up."""
        unit = f"user@{self.uid(name)}.service"
        return self.root("systemctl", "is-active", unit, check=False).stdout.strip() == "active"

    # -- what is in it ------------------------------------------------------------------------------------------------
    def add_user(self, name: str, *, linger: bool = True, groups: Sequence[str] = ()) -> None:
        """A new user with a home; with `linger` its manager is up."""
        self.root("useradd", "-m", "-s", "/bin/bash", *(("-G", ",".join(groups)) if groups else ()), name)
        self.user(name, sys.executable, "-c", "import httpx")
        if linger:
            self.linger(name, on=True)

    def linger(self, name: str, *, on: bool) -> None:
        self.root("loginctl", "enable-linger" if on else "disable-linger", name)
        if on:
            eventually(lambda: self.manager_runs(name), within=90.0, why=f"no user manager of {name}")

    def uid(self, name: str) -> int:
        return int(self._passwd(name)[2])

    def home(self, name: str) -> str:
        return self._passwd(name)[5]

    def environment(self, name: str) -> dict[str, str]:
        """What a login of the user would have."""
        home, runtime = self.home(name), f"/run/user/{self.uid(name)}"
        return {
            **_ENVIRONMENT,
            "PATH": f"{home}/.local/bin:{_ENVIRONMENT['PATH']}",
            "HOME": home,
            "USER": name,
            "LOGNAME": name,
            "XDG_RUNTIME_DIR": runtime,
        }

    def write(self, path: str, text: str, *, owner: str | None = None, mode: str = "644") -> None:
        """A file with this content; directories on the way belong to the owner as well."""
        script = 'umask 022; mkdir -p "$(dirname "$1")" && cat >"$1" && chmod "$2" "$1"'
        tool = ("sh", "-c", script, "sh", path, mode)
        if owner is None:
            self.root(*tool, stdin=text)
        else:
            self.user(owner, *tool, stdin=text)

    def read(self, path: str) -> str:
        return self.root("cat", path).stdout

    def exists(self, path: str) -> bool:
        return self.root("test", "-e", path, check=False).returncode == 0

    def _passwd(self, name: str) -> list[str]:
        return self.root("getent", "passwd", name).stdout.rstrip("\n").split(":")

    def _entering(self, argv: Sequence[str]) -> list[str]:
        into = ("--mount", "--pid", "--cgroup", "--ipc", "--uts", "--net")
        return ["nsenter", "--target", str(self.pid), *into, "--wdns=/", "--", *argv]

    def _run(self, argv: Sequence[str], env: Mapping[str, str], check: bool, stdin: str | None, within: float) -> Done:
        done = subprocess.run(
            self._entering(argv),
            env=dict(env),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done


def shown(binds: Sequence[Path]) -> tuple[Path, ...]:
    """What has to be bound into a box: it shows the root's file system, not /tmp, /run, or what is mounted on it."""
    wanted = {ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), *(path.resolve() for path in binds)}
    return tuple(sorted(path for path in wanted if _is_hidden(path)))


def _is_hidden(path: Path) -> bool:
    hidden = any(path.is_relative_to(place) for place in ("/tmp", "/run", "/dev"))
    return hidden or path.stat().st_dev != Path("/").stat().st_dev


def _delegate(cgroup: Path) -> None:
    """Hand down the controllers that cgroup2 has here; none on hosts that mount them the old way."""
    names = (cgroup / "cgroup.controllers").read_text().split()
    if names:
        (cgroup / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names))
