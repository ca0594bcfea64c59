"""Where and how something was measured, in full: what another person needs to measure it again."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from arcops import words
from arcops.core.evidence.environment import Distribution, Environment, ModelFacts
from arcops.core.evidence.setting import Setting
from arcops.evidence.report import table
from arcops.evidence.report.subject import Subject, short
from arcops.evidence.report.table import Cell, Table, Tone

UNKNOWN = table.UNKNOWN
_BEGIN_OF_VALUE = 94
"""Bytes before the record's own in its file (`arcops.evidence.shelf`)."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A term and what is known of it."""

    term: str
    value: str
    mono: bool = False
    """A command, a path, a digest."""


def head(subject: Subject) -> tuple[Fact, ...]:
    """What, when, by what."""
    record = subject.record
    facts = [
        Fact("measured", record.kind),
        Fact("began", moment(record.began)),
        Fact("took", words.duration(record.ended - record.began)),
        Fact("by", words.clean(f"arcops {record.arcops}")),
        Fact("command", command(record.command), mono=True),
    ]
    if record.run is not None:
        options = " ".join(f"{name}={value}" for name, value in sorted(record.run.workload.options.items()))
        facts.append(Fact("options", words.clean(options) or "none", mono=True))
        facts.append(Fact("workload", words.clean(record.run.workload.digest), mono=True))
    return tuple(facts)


def server(setting: Setting) -> tuple[Fact, ...]:
    """On what, as it says itself, and as it was launched."""
    found, launched = setting.server, setting.configuration
    speculates = {None: UNKNOWN, True: "yes", False: "no"}[found.speculates]
    watched = setting.watched_by + (f"; {setting.unwatched}" if setting.unwatched else "")
    pairs = (
        ("server", found.url, True),
        ("vLLM", found.version, False),
        ("model", found.model, False),
        ("checkpoint", found.model_root, True),
        ("longest context", None if found.max_model_len is None else f"{found.max_model_len:,} tokens", False),
        ("speculates", speculates, False),
        (
            "launched",
            {"daemon": "by the daemon", "process": "by somebody; read from its process"}.get(launched.source),
            False,
        ),
        ("profile", launched.profile, False),
        ("launch", launched.launch_id, True),
        ("requests at once", None if launched.max_num_seqs is None else f"{launched.max_num_seqs:,}", False),
        ("environment", launched.environment_digest, True),
        ("watched by", watched, False),
    )
    return tuple(Fact(term, words.clean(value) if value else UNKNOWN, mono) for term, value, mono in pairs)


def launch(setting: Setting) -> str:
    """The command line, a flag to a line; empty where it is not known."""
    lines: list[list[str]] = [[]]
    for word in setting.configuration.argv:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(shlex.quote(words.clean(word)))
    return " \\\n  ".join(" ".join(line) for line in lines if line)


def variables(setting: Setting) -> str:
    """What was added to its environment, one to a line."""
    return "\n".join(f"{words.clean(name)}={words.clean(value)}" for name, value in setting.configuration.environment)


def cards(setting: Setting) -> Table | None:
    """None where it is not known that there was any."""
    if not setting.cards:
        return None
    rows = [
        (
            table.text(card.address),
            table.text(card.name),
            table.text(card.driver),
            table.memory(card.memory_total),
            Cell(UNKNOWN, Tone.DIM) if card.bandwidth is None else Cell(f"{card.bandwidth / 1e9:,.0f} GB/s"),
        )
        for card in setting.cards
    ]
    return table.table("Cards", ("address", "name", "driver", "memory", "bandwidth"), rows)


def befallen(setting: Setting) -> Table | None:
    """What happened meanwhile; None where nothing was seen."""
    if not setting.befallen:
        return None
    rows = [
        (
            table.seconds(one.at),
            one.kind,
            table.text("yes" if one.spoils else "no", Tone.BAD if one.spoils else Tone.PLAIN),
            one.text,
        )
        for one in setting.befallen
    ]
    return table.table("What befell the run", ("at", "what", "spoils it", "words"), rows)


def cache(setting: Setting) -> Table | None:
    """The server's own words on its cache; None where it has none."""
    if not setting.server.cache:
        return None
    return table.table("The server's cache", ("label", "value"), sorted(setting.server.cache.items()))


def environment(found: Environment) -> tuple[Table, ...]:
    """What the runtime really is; what differs from its packages first."""
    tables = [_changed(found), _system(found), _models(found), _distributions(found)]
    return tuple(one for one in tables if one is not None)


def unread(found: Environment) -> tuple[str, ...]:
    """What nobody knows of it."""
    return tuple(words.clean(one) for one in found.unread)


def verification(subject: Subject) -> tuple[Fact, ...]:
    """The digest, and how anybody checks it."""
    name = shlex.quote(words.clean(subject.stored.path.name))
    return (
        Fact("digest", subject.stored.digest, mono=True),
        Fact("file", name, mono=True),
        Fact("verify with arcops", f"arcops bench show {name}", mono=True),
        Fact("verify without", f"tail -c +{_BEGIN_OF_VALUE + 1} {name} | head -c -2 | sha256sum", mono=True),
    )


def moment(seconds: float) -> str:
    """A time of the wall clock, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def command(said: Sequence[str]) -> str:
    """As it could be typed again."""
    return " ".join(shlex.quote(words.clean(word)) for word in said) or UNKNOWN


def _changed(found: Environment) -> Table | None:
    files = [(one.name, file) for one in found.distributions for file in one.files]
    files += [("no package", file) for file in found.loose]
    if not files:
        return None
    rows = [
        (
            name,
            file.path,
            table.text(file.departure.value, Tone.WARN),
            short(file.digest) if file.digest else UNKNOWN,
            file.detail,
        )
        for name, file in files
    ]
    return table.table(
        "Files that are not as their packages brought them", ("package", "file", "how", "digest", ""), rows
    )


def _system(found: Environment) -> Table:
    rows = [("interpreter", found.interpreter), ("prefix", found.prefix), *found.system]
    return table.table("System", ("what", "version"), rows)


def _models(found: Environment) -> Table | None:
    rows = [
        row
        for name, model in (("model", found.model), ("draft", found.draft))
        if model is not None
        for row in _model(name, model)
    ]
    return table.table("Checkpoints", ("which", "what", "value"), rows) if rows else None


def _model(name: str, model: ModelFacts) -> Iterator[tuple[str, str, str]]:
    for what, value in (
        ("path", model.path),
        ("revision", model.revision),
        ("configuration", model.config_digest),
        ("index", model.index_digest),
        ("headers", model.headers_digest),
        ("samples", model.samples_digest),
        ("tokenizer", model.tokenizer_digest),
        ("all weights", model.weights_digest),
        ("problem", model.problem or None),
    ):
        if value is not None:
            yield name, what, value


def _distributions(found: Environment) -> Table:
    rows = [(one.name, one.version, _wholeness(one), one.origin or "an index") for one in found.distributions]
    return table.table("Packages", ("package", "version", "files", "from"), rows)


def _wholeness(one: Distribution) -> Cell:
    if one.files:
        return table.text(f"{len(one.files)} differ", Tone.WARN)
    return table.text("as built") if one.checked else table.text("not checked", Tone.DIM)
