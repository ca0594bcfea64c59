"""Every profile of this user, and what each means on this machine."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import arcops
from arcops.config import locate
from arcops.config.binding import Machine, bind
from arcops.config.merge import Merged, merge
from arcops.config.paths import DEFAULT_INSTANCE, Paths, config_dir
from arcops.config.problem import Problem, invalid
from arcops.config.site import Site, site_faults
from arcops.config.source import Data, KeyPath, Source, UnusableError, read_source
from arcops.config.validate import Validated, in_order, validate
from arcops.core.errors import InvalidProfileError
from arcops.core.launch import Launch
from arcops.core.profile import Profile, faults

_NAME_RULE = "a profile's name has letters, digits, '.', '_' and '-', at most 64"
PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PLACEHOLDERS: dict[KeyPath, Data] = {("device", "kind"): "cpu", ("model", "path"): "unknown"}
_LONGEST_NAME = 64
"""Characters of a profile's name, and of what is no name, in a message."""


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration as it stands on disk. A profile is read when it is asked for, so having many costs nothing."""

    machine: Machine
    directories: tuple[Path, ...]
    """Where profiles are looked for; the user's own come first and shadow the shipped ones."""

    @classmethod
    def load(
        cls, env: Mapping[str, str] | None = None, *, instance: str = DEFAULT_INSTANCE, sysfs: Path | None = None
    ) -> "Config":
        """Read site.yaml (it may be missing). Raises InvalidProfileError with everything that is wrong in it."""
        env = dict(os.environ) if env is None else env
        directory = config_dir(env)
        file = directory / "site.yaml"
        site, merged = _load_site(file)
        machine = Machine(site, file, merged, env, Paths.of(instance, env), sysfs or locate.SYSFS)
        return cls(machine, (directory / "profiles", shipped_profiles()))

    def names(self) -> list[str]:
        """Every profile's name, in order."""
        found: set[str] = set()
        for directory in self.directories:
            try:
                found.update(entry.name[:-5] for entry in os.scandir(directory) if entry.name.endswith(".yaml"))
            except OSError:  # a directory that is not there holds no profiles
                continue
        return sorted(name for name in found if name and not name.startswith("."))

    def is_shipped(self, name: str) -> bool:
        """Whether the profile of this name is one that came with arcops, not the user's own."""
        return self._files(name)[:1] == [self.directories[-1] / f"{name}.yaml"]

    def profile(self, name: str) -> Profile:
        """The profile, merged and checked. Raises InvalidProfileError with everything that is wrong."""
        validated, _ = self._validated(name)
        if validated.model is None:
            raise invalid(f"profile {name}", validated.problems, hint=_check_hint(name))
        return validated.model

    def launch(self, name: str) -> Launch:
        """What would be started. Raises InvalidProfileError with everything that is wrong or not on this machine."""
        launch = self._launch(name)
        if isinstance(launch, Launch):
            return launch
        raise invalid(f"profile {name}", launch, hint=_check_hint(name))

    def check(self, name: str) -> list[Problem]:
        """Everything that is wrong with a profile; `Problem.here` marks what only this machine lacks.

        Raises InvalidProfileError if there is no such profile.
        """
        if not PROFILE_NAME.fullmatch(name) and name in self.names():
            file = next(
                file for file in (directory / f"{name}.yaml" for directory in self.directories) if _is_there(file)
            )
            return [Problem(file, None, "", f"its name cannot be a profile's; {_NAME_RULE}")]
        launch = self._launch(name)
        return [] if isinstance(launch, Launch) else list(launch)

    def sources(self, name: str) -> list[Path]:
        """The profile's file, the file that it extends, and so on. Raises InvalidProfileError."""
        try:
            return [source.path for source in self._chain(name)]
        except UnusableError as error:
            raise invalid(f"profile {name}", error.problems) from None

    def _launch(self, name: str) -> Launch | tuple[Problem, ...]:
        validated, merged = self._validated(name)
        if validated.model is None:
            return validated.problems
        launch = bind(name, validated.model, merged, self._first_file(name), self.machine)
        if not isinstance(launch, Launch) or not launch.speculates:
            return launch
        return replace(launch, without_draft=self._without_draft(name))

    def _without_draft(self, name: str) -> str | None:
        """The nearest profile up the chain that does not speculate."""
        chain = self._chain(name)
        for depth, source in enumerate(chain):
            section = merge(chain[depth:]).data.get("speculation")
            method = section.get("method", "none") if isinstance(section, dict) else "none"
            if method == "none" and source.path.stem != name:
                return source.path.stem
        return None

    def _validated(self, name: str) -> tuple[Validated[Profile], Merged]:
        file = self._first_file(name)
        try:
            chain = self._chain(name)
        except UnusableError as error:
            return Validated(None, tuple(error.problems)), Merged({})
        merged = merge([*chain, *self._defaults()])
        merged.data.pop("extends", None)
        merged.removed.pop(("extends",), None)
        validated = validate(merged, Profile, file, faults, _PLACEHOLDERS)
        problem = self._on_failure_problem(name, merged, file)
        if problem is None:
            return validated, merged
        return Validated(None, in_order((*validated.problems, problem))), merged

    def _on_failure_problem(self, name: str, merged: Merged, file: Path) -> Problem | None:
        """What is wrong with the profile that is to run when this one fails, as far as its name goes."""
        named = merged.data.get("on_failure")
        if not isinstance(named, str):
            return None  # none is named, or what is there is refused as no name at all
        if named == name:
            message = "names the profile itself; name another, or set it to null to drop an inherited one"
        elif not self._files(named):
            message = f"there is no profile {_cut(named)!r}{self._nearest(named)}"
        else:
            return None
        return Problem(*merged.place(("on_failure",), file), "on_failure", message)

    def _defaults(self) -> list[Source]:
        """What the site says for profiles that say nothing, as one more file at the end of every chain."""
        machine = self.machine
        own = machine.site.instances.get(machine.paths.instance)
        if own is None or own.port is None:
            return []
        _, line = machine.site_merged.place(("instances", machine.paths.instance, "port"), machine.site_file)
        lines: dict[KeyPath, int] = {} if line is None else {("server", "port"): line}
        return [Source(machine.site_file, {"server": {"port": own.port}}, lines)]

    def _chain(self, name: str) -> list[Source]:
        """The sources of a profile, itself first. Raises UnusableError."""
        chain = [read_source(self._first_file(name))]
        names = [name]
        while (parent := chain[-1].data.get("extends")) is not None:
            child = chain[-1]
            line = child.lines.get(("extends",))
            if not isinstance(parent, str):
                raise UnusableError([Problem(child.path, line, "extends", f"must be a profile's name, not {parent!r}")])
            names.append(parent)
            way = " -> ".join(map(_cut, names))
            # A profile may build on the shipped one that it shadows.
            files = [file for file in self._files(parent) if file != child.path] or self._files(parent)
            if not files:
                message = f"there is no profile {_cut(parent)!r} ({way}){self._nearest(parent)}"
                raise UnusableError([Problem(child.path, line, "extends", message)])
            if any(source.path == files[0] for source in chain):
                raise UnusableError([Problem(child.path, line, "extends", f"goes in a circle: {way}")])
            chain.append(read_source(files[0]))
        return chain

    def _first_file(self, name: str) -> Path:
        files = self._files(name)
        if not files:
            raise InvalidProfileError(f"there is no profile {_cut(name)!r}{self._nearest(name)}", hint=self._hint(name))
        return files[0]

    def _files(self, name: str) -> list[Path]:
        """Where profiles of this name are, the one that counts first."""
        if not PROFILE_NAME.fullmatch(name):
            return []
        files = [directory / f"{name}.yaml" for directory in self.directories]
        return [file for file in files if _is_there(file)]

    def _nearest(self, name: str) -> str:
        near = get_close_matches(name, self.names(), n=1, cutoff=0.5)
        return f"; did you mean {near[0]}?" if near else ""

    def _hint(self, name: str) -> str:
        if not PROFILE_NAME.fullmatch(name):
            return _NAME_RULE
        for directory in self.directories:
            if (directory / f"{name}.yml").exists():
                return f"rename {directory / name}.yml to {name}.yaml"
        return f"`arcops profile list` shows all; your own are YAML files in {self.directories[0]}"


def _is_there(file: Path) -> bool:
    return os.path.lexists(file)


def _check_hint(name: str) -> str:
    return f"`arcops profile check {name}` shows all that is wrong with it"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def shipped_profiles() -> Path:
    """The profiles that came with arcops: inside an installed package, or beside it in a source checkout."""
    package = Path(arcops.__file__).resolve().parent
    inside = package / "data" / "profiles"
    return inside if inside.is_dir() else package.parent / "profiles"


def _load_site(file: Path) -> tuple[Site, Merged]:
    if not os.path.lexists(file):
        return Site(), Merged({})
    try:
        merged = merge([read_source(file, may_be_empty=True)])
    except UnusableError as error:
        raise invalid("the site settings", error.problems) from None
    validated = validate(merged, Site, file, site_faults, {})
    if validated.model is None:
        raise invalid("the site settings", validated.problems)
    return validated.model, merged
