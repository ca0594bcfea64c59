"""What checks look with: where things are on this machine, and what several checks want to know and is asked once."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from arcops import wire
from arcops.config.paths import Paths, check_instance
from arcops.core.errors import ArcopsError
from arcops.core.launch import Launch
from arcops.machine import managers, process, record
from arcops.machine.gpu import CardIdentity, find_cards
from arcops.machine.managers import Answer
from arcops.machine.proc import user_name
from arcops.machine.record import LaunchRecord, Unbelievable
from arcops.service import same
from arcops.service.places import Place, find
from arcops.service.state import ServiceState, look
from arcops.service.units import Unit

if TYPE_CHECKING:
    from arcops.config.library import Config

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the machine shows what it is: another tree in a test."""

    proc: str = "/proc"
    sys: str = "/sys"
    dev: str = "/dev"
    linger: str = "/var/lib/systemd/linger"
    group: str = "/etc/group"
    units: str = "/"
    """Above the directories with the units of the system."""


class Once(Generic[T]):
    """A value that is made when it is first asked for, by whichever thread; the others wait for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


@dataclass(frozen=True, slots=True)
class Profiles:
    """The configuration, as far as it can be used here."""

    launches: tuple[Launch, ...]
    """Of the profiles that could be started on this machine."""
    invalid: tuple[tuple[str, str], ...]
    """Name and first problem of the user's own profiles that could not."""
    cards: tuple[str, ...]
    """Addresses that the site's settings or a profile name, in order."""
    vllms: tuple[tuple[str, str | None, tuple[tuple[str, str], ...]], ...]
    """Every vLLM that a profile would start: executable, set-up script, what the profile adds to the environment."""
    site: str
    """The file with the site's settings."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at a machine, for one instance."""

    paths: Paths
    env: Mapping[str, str]
    roots: Roots = field(default_factory=Roots)
    uid: int = field(default_factory=os.getuid)
    user: str = field(default_factory=lambda: user_name(os.getuid()))
    place: Place | None = None
    """Where the service is; None: it is the user's own."""
    asked: frozenset[str] = frozenset()
    """Checks that somebody asked for by name: what one would leave alone otherwise it does then."""
    status: Once["wire.Status | str"] = field(init=False)
    """What the daemon says, or why it does not."""
    service: Once["ServiceState | ArcopsError"] = field(init=False)
    profiles: Once["Profiles | ArcopsError"] = field(init=False)
    launch: Once["LaunchRecord | Unbelievable | None"] = field(init=False)
    """The launch record of this instance."""
    found_cards: Once["tuple[CardIdentity, ...]"] = field(init=False)
    """Every display controller of this machine."""

    def __post_init__(self) -> None:
        fill = partial(object.__setattr__, self)
        fill("status", Once(lambda: same.ask(self.paths)))
        fill("service", Once(lambda: _service(self.unit.name, self.env)))
        fill("profiles", Once(lambda: _profiles(self.paths.instance, self.env)))
        fill("launch", Once(lambda: record.read(str(self.paths.record), process.boot_id())))
        fill("found_cards", Once(lambda: find_cards(self.roots.sys)))

    @classmethod
    def of(
        cls, instance: str, env: Mapping[str, str], roots: Roots | None = None, asked: Iterable[str] = ()
    ) -> "Sight":
        """Of this machine. Raises ArcopsError for a bad instance name."""
        full = managers.environment(env)
        where, user = roots or Roots(), user_name(os.getuid())
        check_instance(instance)
        place = find(instance, user, full, where.units)
        paths = Paths.of(instance, place.env)
        return cls(paths, place.env, where, user=user, place=place, asked=frozenset(asked))

    @property
    def unit(self) -> Unit:
        return Unit.of(self.paths.instance) if self.place is None else self.place.unit

    def ask(self, argv: Sequence[str], within: float = managers.ANSWER_WITHIN) -> Answer:
        """Run a program with a deadline. Raises ArcopsError."""
        return managers.ask(argv, self.env, within)

    def usable(self) -> Profiles:
        """The profiles. Raises ArcopsError where the configuration cannot be read."""
        found = self.profiles()
        if isinstance(found, ArcopsError):
            raise found
        return found


def read_text(*path: str) -> str | None:
    """A small file of the kernel's without its last newline, or None where it cannot be read."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read(64 * 1024).strip()
    except OSError:
        return None


def _service(unit: str, env: Mapping[str, str]) -> "ServiceState | ArcopsError":
    try:
        return look(unit, env)
    except ArcopsError as error:
        return error


def _profiles(instance: str, env: Mapping[str, str]) -> "Profiles | ArcopsError":
    from arcops.config.library import Config

    try:
        config = Config.load(env, instance=instance)
    except ArcopsError as error:
        return error
    launches: list[Launch] = []
    invalid: list[tuple[str, str]] = []
    for name in config.names():
        try:
            launches.append(config.launch(name))
        except ArcopsError:
            if not config.is_shipped(name):
                invalid.append((name, _first_problem(config, name)))
    cards = (*config.machine.site.cards_for(instance), *(card for launch in launches for card in launch.cards))
    vllms = {launch.argv[0]: (launch.argv[0], launch.setup, launch.environment) for launch in launches}
    return Profiles(
        launches=tuple(launches),
        invalid=tuple(invalid),
        cards=tuple(dict.fromkeys(cards)),
        vllms=tuple(vllms.values()),
        site=str(config.machine.site_file),
    )


def _first_problem(config: "Config", name: str) -> str:
    try:
        return "; ".join(str(problem) for problem in config.check(name)[:1])
    except ArcopsError as error:
        return error.message
