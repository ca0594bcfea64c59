"""What `arcops service install` and `uninstall` do to the files of the user's units, and say of it."""

import os
from pathlib import Path

from arcops.cli import output
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.quantity import Known
from arcops.machine import linger as linger_file
from arcops.service import control, files, units
from arcops.service.files import UnitFile
from arcops.service.state import ServiceState
from arcops.service.units import Unit

_PASSED_ON = ("ARCOPS_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""What moves arcops' directories. A service does not get the environment of a shell."""


def write(found: UnitFile, text: str, *, force: bool) -> bool:
    """Bring the file to `text`; False where it is that already. Raises ArcopsError where somebody else changed it."""
    path = found.path
    if found.masked:
        raise ArcopsError(f"{path.name} is masked", hint=f"systemctl --user unmask {path.name}")
    if found.text == text and found.link is None:
        output.data(f"unchanged  {path}")
    elif found.text is not None and not force:
        _agree(found, text)
        files.write(path, text)
        output.data(f"replaced   {path}")
    else:
        files.write(path, text)
        output.data(f"{'written' if found.text is None else 'replaced':<10} {path}")
    for drop_in in found.drop_ins:
        output.data(f"kept       {drop_in}")
    return found.text != text or found.link is not None


def is_seen(state: ServiceState, found: UnitFile) -> None:
    """The manager reads the file that was written. Raises ArcopsError."""
    if not state.installed or (state.fragment and not _is_same_file(Path(state.fragment), found.path)):
        raise ArcopsError(
            f"the user's systemd does not read {found.path}" + (f", but {state.fragment}" if state.fragment else ""),
            hint="is XDG_CONFIG_HOME another one for the manager? `systemctl --user show-environment` says",
        )
    if state.load == "bad-setting":
        raise ArcopsError(
            f"{state.unit} has a setting that systemd refuses", hint=f"systemctl --user status {state.unit}"
        )


def installed(state: ServiceState, found: UnitFile, *, was_running: bool) -> None:
    """What there is now, and what is still lacking for a service that runs unattended."""
    lingering = linger_file.lingering(control.user())
    on = isinstance(lingering, Known) and lingering.value
    output.data(f"{state.enabled or 'unknown':<10} {state.unit}")
    output.data(f"{state.active:<10} {state.unit}")
    output.data(f"lingering  {'on' if on else 'off' if isinstance(lingering, Known) else 'unknown'}")
    if was_running:
        output.note(f"{state.unit} runs with what it was started with: `arcops service restart` (--keep-backend)")
    missing = [
        option
        for option, there in (
            ("--enable", state.enabled.startswith("enabled")),
            ("--now", state.runs),
            ("--linger", on),
        )
        if not there
    ]
    if missing:
        output.note(f"not done: arcops service install {' '.join(missing)}")
    set_here = [name for name in _PASSED_ON if os.environ.get(name)]
    if set_here and not found.drop_ins:
        output.note(
            f"{', '.join(set_here)}: set in this shell, and unknown to the service; "
            f"`systemctl --user edit {state.unit}` can say Environment= for it"
        )


def remove(found: UnitFile, unit: Unit, running: tuple[str, ...]) -> None:
    """Remove the file if it is ours and nobody else needs it: an instance that is enabled, or one that runs."""
    path = found.path
    others = sorted({*running, *(files.enabled_instances(path.parent, unit.file) if "@" in unit.file else ())})
    if found.text is None and found.link is None:
        output.data(f"not there  {path}")
    elif others:
        output.data(f"kept       {path}: {', '.join(others)} need it")
    elif not found.ours:
        output.data(f"kept       {path}: `arcops service install` did not write it")
    else:
        files.remove(path)
        output.data(f"removed    {path}")
    for drop_in in found.drop_ins:
        output.data(f"kept       {drop_in}: yours")


def _agree(found: UnitFile, text: str) -> None:
    """Show what would change, and go on only if a person says yes."""
    output.note(output.printable(units.difference(found.path, found.text or "", text)))
    if found.link is not None:
        output.note(f"{found.path} is a link to {found.link}: a file would take its place")
    whose = "was changed, or is of another arcops" if found.ours else "was not written by `arcops service install`"
    if output.can_ask() and output.confirmed(f"{found.path} {whose}. Overwrite it?"):
        return
    raise ArcopsError(
        f"{found.path} {whose}, and was left as it is",
        hint="--force overwrites it; what you want to keep goes into a drop-in (systemctl --user edit)",
        exit_code=ExitCode.USAGE,
    )


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
