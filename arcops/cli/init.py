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
    from arcops.config.discover import FoundRuntime
    from arcops.config.problem import Problem
    from arcops.machine.gpu import CardIdentity

FIRST_PROFILE = "first"
_NOTHING_RUNS = (
    "next      no profile was written, for none can run here yet; put what is lacking into site.yaml,",
    "          or name a model of yours in a profile of your own (`arcops profile schema` has the keys)",
)
"""A profile that cannot run would only make every check fail."""
_NO_ONEAPI = "no setvars.sh in /opt/intel/oneapi; if your vLLM needs one, set runtimes.xpu.setup in site.yaml"


@dataclass(frozen=True, slots=True)
class Findings:
    """What the configuration is made of: said on the command line, or else found."""

    runtimes: "tuple[FoundRuntime, ...]"
    models_dir: str | None
    models: tuple[str, ...]
    """As a profile would name them."""
    cached: tuple[str, ...]
    tiny: tuple[str, ...]
    """The models of the demo profiles, which need no models_dir."""
    setup: str | None
    """oneAPI's script; None if it is not in its usual place."""
    cards: "tuple[CardIdentity, ...]"
    """Every display controller."""
    chosen: tuple[str, ...]
    """Addresses of the cards that profiles may have, in the order in which they are to be taken."""

    def runtime(self, kind: str | None) -> "FoundRuntime | None":
        """The first vllm whose torch is built for `kind`; None asks for one whose build could not be read."""
        return next((runtime for runtime in self.runtimes if runtime.kind == kind), None)

    @property
    def kinds(self) -> list[str]:
        """The kinds of device that profiles may have, that of the first card first."""
        from arcops.config.cards import kind_of

        kinds = {card.address: kind_of(card) for card in self.cards}
        of_cards = [kind for kind in map(kinds.get, self.chosen) if kind is not None]
        return list(dict.fromkeys([*of_cards, "cpu"]))


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
    """Write a first configuration from the vLLM, models and cards that are found: site.yaml, and a first profile if
    one of the shipped ones can run here."""
    from arcops.config.library import Config
    from arcops.config.paths import config_dir

    directory = config_dir(os.environ)
    site, profile = directory / "site.yaml", directory / "profiles" / f"{FIRST_PROFILE}.yaml"
    if not force:
        _refuse_to_overwrite(site, profile)
    findings = _findings(vllm or [], models, card or [])
    _write(site, _site_yaml(findings))
    for line in (*_found(findings), f"wrote     {site}"):
        output.data(output.printable(line))
    config = Config.load(instance=instance_of(ctx))
    lacks = {base: config.check(base) for base in _bases(findings)}
    base = next((base for base, problems in lacks.items() if not problems), None)
    if base is not None:
        _write(profile, _profile_yaml(findings, base))
    for line in (*_lacking(lacks), *(_NOTHING_RUNS if base is None else (f"wrote     {profile}", *_next(base)))):
        output.data(output.printable(line))


def _bases(findings: Findings) -> list[str]:
    """What a first profile could build on: the reference deployment where there is a card for it, else the demo."""
    return [*(["target-only"] if "xpu" in findings.kinds else []), "demo-dflash2"]


def _lacking(lacks: "dict[str, list[Problem]]") -> list[str]:
    """What the shipped profiles would need that is not here."""
    lines: list[str] = []
    for base, problems in lacks.items():
        lines += [f"lacking   {base}: {problem.key}: {problem.message}" for problem in problems]
    return lines


def _next(base: str) -> list[str]:
    return [
        f"next      arcops profile show {FIRST_PROFILE}   (builds on {base})",
        f"          arcopsd, and beside it: arcops switch {FIRST_PROFILE}",
    ]


def _refuse_to_overwrite(*files: Path) -> None:
    there = [str(file) for file in files if os.path.lexists(file)]
    if there:
        raise ArcopsError(
            f"there is a configuration already: {' and '.join(there)}",
            hint="edit it, or use --force to write it anew",
        )


def _findings(vllm: list[str], models: str | None, cards: list[str]) -> Findings:
    from arcops.config import locate
    from arcops.config.cards import is_integrated, kind_of
    from arcops.config.discover import (
        FoundRuntime,
        cached_models,
        find_models_dir,
        find_runtimes,
        find_setup,
        models_in,
        tiny_models,
        torch_kind,
    )
    from arcops.machine.gpu import find_cards

    runtimes = [FoundRuntime(path, torch_kind(path)) for path in map(_executable, vllm)] or find_runtimes(os.environ)
    models_dir = _directory(models) if models else find_models_dir(os.environ)
    found = find_cards(str(locate.SYSFS))
    usable = tuple(card.address for card in found if kind_of(card) is not None and not is_integrated(card))
    return Findings(
        runtimes=tuple(runtimes),
        models_dir=models_dir,
        models=tuple(models_in(Path(models_dir))) if models_dir else (),
        cached=tuple(cached_models(os.environ)),
        tiny=tuple(tiny_models(os.environ)),
        setup=find_setup(),
        cards=found,
        chosen=tuple(dict.fromkeys(_card(card, found) for card in cards)) or usable,
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


def _card(text: str, found: "tuple[CardIdentity, ...]") -> str:
    address = text.lower()
    if address not in {card.address for card in found}:
        there = ", ".join(card.address for card in found) or "none"
        raise ArcopsError(
            f"--card {text}: there is no such card in this machine",
            hint=f"its display controllers: {there}",
            exit_code=ExitCode.INVALID,
        )
    return address


def _found(findings: Findings) -> list[str]:
    lines = [f"vllm      {runtime.path} ({runtime.kind or 'torch build unknown'})" for runtime in findings.runtimes]
    lines += [] if lines else ["vllm      none found; say where it is: --vllm PATH"]
    lines.append(f"models    {findings.models_dir or 'no directory found; say where they are: --models DIR'}")
    lines += [f"          {model}" for model in findings.models]
    lines += [f"tiny      {model}" for model in findings.tiny]
    lines += [f"cached    {model}" for model in findings.cached]
    if "xpu" in findings.kinds:
        lines.append(f"oneAPI    {findings.setup or _NO_ONEAPI}")
    for card in findings.cards:
        use = "" if card.address in findings.chosen else ", not used: " + _why_not(card)
        lines.append(f"card      {card.address} ({card.driver or 'no driver'}{use})")
    return lines if findings.cards else [*lines, "card      none found; the demo profiles run on the CPU"]


def _why_not(card: "CardIdentity") -> str:
    from arcops.config.cards import is_integrated, kind_of

    if kind_of(card) is None:
        return "vLLM has no use for its driver"
    return "part of the processor" if is_integrated(card) else "not chosen"


def _site_yaml(findings: Findings) -> str:
    lines = ["# What this machine has. Profiles that name no vLLM, models or cards of their own take these."]
    any_kind = findings.runtime(None)
    if any_kind is not None:
        lines += ["runtime:", f"  vllm: {_quoted(any_kind.path)}"]
    by_kind = [line for kind in findings.kinds for line in _kind_yaml(findings, kind)]
    lines += ["runtimes:", *by_kind] if by_kind else []
    if not findings.runtimes:
        lines += ["# runtime:", "#   vllm: /opt/vllm/bin/vllm"]
    if findings.models_dir is not None:
        lines.append(f"models_dir: {_quoted(findings.models_dir)}")
    else:
        lines.append("# models_dir: /opt/models")
    lines.append(f"cards: {json.dumps(list(findings.chosen))}" if findings.chosen else "# cards: ['0000:03:00.0']")
    return "\n".join(lines) + "\n"


def _kind_yaml(findings: Findings, kind: str) -> list[str]:
    """The vLLM that is built for a kind of device, and oneAPI for Intel's cards."""
    runtime = findings.runtime(kind)
    lines = [] if runtime is None else [f"    vllm: {_quoted(runtime.path)}"]
    if kind == "xpu" and findings.setup is not None:
        lines.append(f"    setup: {_quoted(findings.setup)}")
    return [f"  {kind}:", *lines] if lines else []


def _quoted(text: str) -> str:
    """A JSON string is one of YAML's double-quoted ones, so any path can be written."""
    return json.dumps(text, ensure_ascii=False)


def _profile_yaml(findings: Findings, base: str) -> str:
    """A profile that builds on a shipped one, with the models that were found to choose from."""
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
