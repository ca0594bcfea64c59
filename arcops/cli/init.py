"""`arcops init`: a first configuration, from what this machine has."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arcops.cli import output
from arcops.cli.main import instance_of
from arcops.core.errors import ArcopsError, ExitCode

if TYPE_CHECKING:
    from arcops.config.discover import FoundCard, FoundRuntime

FIRST_PROFILE = "first"


@dataclass(frozen=True, slots=True)
class Findings:
    """What the configuration is made of: said on the command line, or else found."""

    runtimes: "tuple[FoundRuntime, ...]"
    models_dir: str | None
    models: tuple[str, ...]
    """As a profile would name them."""
    cached: tuple[str, ...]
    cards: "tuple[FoundCard, ...]"
    """Every display controller."""
    chosen: tuple[str, ...]
    """Addresses of the cards that profiles may have."""

    def runtime(self, *kinds: str | None) -> "FoundRuntime | None":
        """The first vllm whose torch is built for one of `kinds`."""
        return next((runtime for runtime in self.runtimes if runtime.kind in kinds), None)


def init(
    ctx: typer.Context,
    vllm: Annotated[
        list[str] | None, typer.Option("--vllm", metavar="PATH", help="A vllm executable; look for none.")
    ] = None,
    models: Annotated[
        str | None, typer.Option("--models", metavar="DIR", help="Where models are; look for no other.")
    ] = None,
    card: Annotated[
        list[str] | None, typer.Option("--card", metavar="BDF", help="PCI address of a card; look for none.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Write a first configuration: site.yaml and one profile, from the vLLM, models and cards that are found."""
    from arcops.config.library import Config
    from arcops.config.paths import config_dir

    directory = config_dir(os.environ)
    site, profile = directory / "site.yaml", directory / "profiles" / f"{FIRST_PROFILE}.yaml"
    if not force:
        _refuse_to_overwrite(site, profile)
    findings = _findings(vllm or [], models, card or [])
    _write(site, _site_yaml(findings))
    _write(profile, _profile_yaml(findings))
    for line in (*_found(findings), f"wrote     {site}", f"wrote     {profile}"):
        output.data(output.printable(line))
    missing = Config.load(instance=instance_of(ctx)).check(FIRST_PROFILE)
    if missing:
        output.data("missing for the first profile:")
        for problem in missing:
            output.data(output.printable(f"  {problem}"))
    else:
        output.data(f"next      arcops profile show {FIRST_PROFILE}")


def _refuse_to_overwrite(*files: Path) -> None:
    there = [str(file) for file in files if os.path.lexists(file)]
    if there:
        raise ArcopsError(
            f"there is a configuration already: {' and '.join(there)}",
            hint="edit it, or use --force to write it anew",
        )


def _findings(vllm: list[str], models: str | None, cards: list[str]) -> Findings:
    from arcops.config.discover import (
        FoundRuntime,
        cached_models,
        find_cards,
        find_models_dir,
        find_runtimes,
        models_in,
        torch_kind,
    )
    from arcops.config.locate import PCI_DEVICES

    runtimes = [FoundRuntime(path, torch_kind(path)) for path in map(_executable, vllm)] or find_runtimes(os.environ)
    models_dir = _directory(models) if models else find_models_dir(os.environ)
    found = find_cards(PCI_DEVICES)
    usable = tuple(card.address for card in found if card.kind is not None and not card.integrated)
    return Findings(
        runtimes=tuple(runtimes),
        models_dir=models_dir,
        models=tuple(models_in(Path(models_dir))) if models_dir else (),
        cached=tuple(cached_models(os.environ)),
        cards=tuple(found),
        chosen=tuple(sorted(_card(card) for card in cards)) or usable,
    )


def _executable(text: str) -> str:
    path = os.path.abspath(os.path.expanduser(text))
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        raise ArcopsError(f"--vllm {text}: {path} is not an executable file", exit_code=ExitCode.INVALID)
    return path


def _directory(text: str) -> str:
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.isdir(path):
        raise ArcopsError(f"--models {text}: {path} is not a directory", exit_code=ExitCode.INVALID)
    return path


def _card(text: str) -> str:
    from arcops.config.locate import PCI_DEVICES

    address = text.lower()
    if "/" in address or not (PCI_DEVICES / address).is_dir():
        raise ArcopsError(
            f"--card {text}: there is no such card in this machine",
            hint="`ls /sys/bus/pci/devices` shows all addresses; one looks like 0000:03:00.0",
            exit_code=ExitCode.INVALID,
        )
    return address


def _found(findings: Findings) -> list[str]:
    lines = [f"vllm      {runtime.path} ({runtime.kind or 'torch build unknown'})" for runtime in findings.runtimes]
    lines += [] if lines else ["vllm      none found; say where it is: --vllm PATH"]
    lines.append(f"models    {findings.models_dir or 'no directory found; say where they are: --models DIR'}")
    lines += [f"          {model}" for model in findings.models]
    lines += [f"cached    {model}" for model in findings.cached]
    for card in findings.cards:
        use = "" if card.address in findings.chosen else ", not used: " + _why_not(card)
        lines.append(f"card      {card.address} ({card.driver or 'no driver'}{use})")
    return lines if findings.cards else [*lines, "card      none found; the demo profiles run on the CPU"]


def _why_not(card: "FoundCard") -> str:
    if card.kind is None:
        return "vLLM has no use for its driver"
    return "part of the processor" if card.integrated else "not chosen"


def _site_yaml(findings: Findings) -> str:
    lines = ["# What this machine has. Profiles that name no vLLM, models or cards of their own take these."]
    card_runtime, cpu_runtime = findings.runtime("xpu", "cuda", None), findings.runtime("cpu")
    if card_runtime is not None:
        lines += ["runtime:", f"  vllm: {_quoted(card_runtime.path)}"]
    if cpu_runtime is not None:
        lines += ["runtimes:", "  cpu:", f"    vllm: {_quoted(cpu_runtime.path)}"]
    if not findings.runtimes:
        lines += ["# runtime:", "#   vllm: /opt/vllm/bin/vllm"]
    if findings.models_dir is not None:
        lines.append(f"models_dir: {_quoted(findings.models_dir)}")
    else:
        lines.append("# models_dir: /opt/models")
    lines.append(f"cards: {json.dumps(list(findings.chosen))}" if findings.chosen else "# cards: ['0000:03:00.0']")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A JSON string is one of YAML's double-quoted ones, so any path can be written."""
    return json.dumps(text, ensure_ascii=False)


def _profile_yaml(findings: Findings) -> str:
    """A profile that builds on a shipped one: the reference deployment where there is a card for it, else the demo."""
    kinds = {card.kind for card in findings.cards if card.address in findings.chosen}
    base = "target-only" if "xpu" in kinds else "demo-target-only"
    lines = [
        f"# Your first profile: what is said here goes over {base}, and null removes a key.",
        "# `arcops profile schema` describes every key, `arcops profile check` finds every mistake.",
        "description: My first profile",
        f"extends: {base}",
    ]
    models = [*findings.models, *findings.cached]
    if models:
        lines += ["", "# model:", *(f"#   path: {_quoted(model)}" for model in models)]
    return "\n".join(lines) + "\n"


def _write(file: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a file."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    except (OSError, UnicodeEncodeError) as error:
        if partial.exists():
            partial.unlink()
        reason = error.strerror if isinstance(error, OSError) else "a path that was found is not text in UTF-8"
        raise ArcopsError(f"cannot write {file}: {reason}") from error
