"""Where an instance keeps its things. Nothing here reads a file; `Paths.make` is the only part that writes.

What belongs to this boot lives in the runtime directory, the last order and the history in the state directory, what a
person writes in the configuration directory (XDG Base Directory Specification 0.8).
"""

import os
import pwd
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arcops.core.errors import ArcopsError, ExitCode, InvalidProfileError

DEFAULT_INSTANCE = "main"

INSTANCE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
RESERVED_INSTANCES = frozenset({"cpu"})
"""Names that fit the pattern, and are taken: `cpu.lock` is the CPU's own."""
_LONGEST_SOCKET_PATH = 107
"""Bytes: `sun_path` of sockaddr_un holds 108, the last one is NUL (unix(7))."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The files and directories of one instance, all absolute."""

    instance: str
    config_dir: Path
    """`site.yaml` and `profiles/`; shared by all instances of a user."""
    runtime_dir: Path
    """Of this boot, shared by all instances of a user, mode 0700."""
    state_dir: Path
    """Of this instance, kept over reboots."""

    @classmethod
    def of(cls, instance: str = DEFAULT_INSTANCE, env: Mapping[str, str] | None = None) -> "Paths":
        """The paths of `instance`, from `env` (default: the process's environment).

        Raises ArcopsError for a bad instance name, InvalidProfileError if the control socket's path would be too long.
        """
        env = os.environ if env is None else env
        check_instance(instance)
        paths = cls(
            instance=instance,
            config_dir=config_dir(env),
            runtime_dir=runtime_dir(env),
            state_dir=xdg_dir(env, "XDG_STATE_HOME", ".local/state") / "arcops" / instance,
        )
        length = len(os.fsencode(paths.socket))
        if length > _LONGEST_SOCKET_PATH:
            raise InvalidProfileError(
                f"the control socket's path is {length} bytes long, and the kernel takes {_LONGEST_SOCKET_PATH}: "
                f"{paths.socket}",
                hint="set XDG_RUNTIME_DIR to a shorter directory, or choose a shorter instance name",
            )
        return paths

    @property
    def socket(self) -> Path:
        """The control socket."""
        return self.runtime_dir / f"{self.instance}.sock"

    @property
    def daemon_lock(self) -> Path:
        """Flocked by the one daemon of this instance."""
        return self.runtime_dir / f"{self.instance}.lock"

    @property
    def state_lock(self) -> Path:
        """Flocked as well: another login may have another runtime directory, and comes to the same database."""
        return self.state_dir / "arcopsd.lock"

    @property
    def keeper_dir(self) -> Path:
        """What belongs to the launches of this boot."""
        return self.runtime_dir / self.instance

    @property
    def record(self) -> Path:
        """The launch record."""
        return self.keeper_dir / "launch.json"

    @property
    def cpu_lock(self) -> Path:
        """What a profile without a card locks; one for all instances of a user."""
        return self.runtime_dir / "cpu.lock"

    @property
    def database(self) -> Path:
        """SQLite: the last order and the event history."""
        return self.state_dir / "arcops.db"

    @property
    def history(self) -> Path:
        """SQLite: the numbers' past. It may be removed, which loses the past and no order."""
        return self.state_dir / "history.db"

    @property
    def log_dir(self) -> Path:
        """One log file per launch."""
        return self.state_dir / "logs"

    @property
    def evidence_dir(self) -> Path:
        """What was seen of backends that were doubted or had failed: one folder for each."""
        return self.state_dir / "evidence"

    @property
    def footprints(self) -> Path:
        """What launches took of their cards: a file for each profile."""
        return self.state_dir / "footprints"

    @property
    def records(self) -> Path:
        """What was measured, and what was qualified: a file for each run."""
        return self.state_dir / "records"

    @property
    def environments(self) -> Path:
        """The environments that launches ran in: a file for each, named by its digest."""
        return self.state_dir / "environments"

    @property
    def hashes(self) -> Path:
        """Hashes of files that were read, and by what each is known again; one file for all instances of a user. It may
        be removed, which costs the next look at an environment its speed."""
        return self.state_dir.parent / "hashes"

    @property
    def screen(self) -> Path:
        """How the operator wants the screen to look; one file for all instances of a user."""
        return self.state_dir.parent / "screen.json"

    def make(self) -> None:
        """Create the runtime and state directories with mode 0700.

        Raises ArcopsError if the runtime directory is not ours alone: whoever could write there could own the socket.
        """
        for directory in (self.runtime_dir, self.keeper_dir, self.state_dir, self.log_dir):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise ArcopsError(
                    f"cannot make the directory {directory}: {error.strerror}",
                    hint="check who owns its parent, or set XDG_RUNTIME_DIR and XDG_STATE_HOME",
                ) from error
        status = self.runtime_dir.lstat()
        private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        if not private or status.st_uid != os.getuid():
            raise ArcopsError(
                f"the runtime directory {self.runtime_dir} is not ours alone "
                f"(owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o})",
                hint=f"chown it to user {os.getuid()} and chmod 0700, or set XDG_RUNTIME_DIR",
            )


def check_instance(name: str) -> None:
    """Raise ArcopsError unless `name` may name an instance: it becomes a file name and part of a unit's name."""
    if name in RESERVED_INSTANCES:
        raise ArcopsError(
            f"{name!r} cannot be an instance name: its lock would be the CPU's own",
            hint="choose another, for example cpu0",
            exit_code=ExitCode.USAGE,
        )
    if not INSTANCE_NAME.fullmatch(name):
        raise ArcopsError(
            f"{name!r} cannot be an instance name",
            hint="1 to 32 of a-z, 0-9 and '-', starting with a letter or digit",
            exit_code=ExitCode.USAGE,
        )


def home(env: Mapping[str, str]) -> Path:
    """The user's home: $HOME, else what the user database says, else `/`."""
    if env.get("HOME"):
        return Path(env["HOME"])
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/")


def xdg_dir(env: Mapping[str, str], variable: str, default: str) -> Path:
    """The base directory that `variable` names, else `default` below the home. A relative value is ignored, as the
    specification demands."""
    value = env.get(variable, "")
    return Path(value) if os.path.isabs(value) else home(env) / default


def config_dir(env: Mapping[str, str]) -> Path:
    """`$ARCOPS_CONFIG_DIR`, else `$XDG_CONFIG_HOME/arcops`."""
    own = env.get("ARCOPS_CONFIG_DIR", "")
    return Path(own).absolute() if own else xdg_dir(env, "XDG_CONFIG_HOME", ".config") / "arcops"


def runtime_dir(env: Mapping[str, str]) -> Path:
    """`$XDG_RUNTIME_DIR/arcops`, else `/run/user/UID/arcops` where that is ours, else `/tmp/arcops-UID`.

    The second step gives a login without a session (su, cron) the same directory as the user's own manager.
    """
    value = env.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(value):
        return Path(value) / "arcops"
    user = os.getuid()
    run = Path(f"/run/user/{user}")
    try:
        ours = run.stat().st_uid == user
    except OSError:
        ours = False
    return run / "arcops" if ours else Path(f"/tmp/arcops-{user}")  # noqa: S108 - Paths.make refuses a stranger's
