"""What has to be known before any figure is read: what spoils a record, what is not exact, what does not compare."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arcops import words
from arcops.core.evidence import soaked
from arcops.core.evidence.judge import Judgement, spoiled
from arcops.core.evidence.qualification import Gate, Verdict
from arcops.core.evidence.rungs import Rung, Standing
from arcops.evidence.report import table
from arcops.evidence.report.subject import Comparison, Subject
from arcops.evidence.report.table import Cell, Table, Tone


@dataclass(frozen=True, slots=True)
class Line:
    """One verdict: a word, and why."""

    tone: Tone
    word: str
    reason: str


def of_subject(subject: Subject) -> tuple[Line, ...]:
    """The worst first; one line at least."""
    record = subject.record
    lines = [*_of_qualification(subject), *_of_soak(subject), *_of_judgements(subject.judgements), *_of_rungs(subject)]
    if record.run is not None and record.setting is None:
        lines.append(Line(Tone.WARN, "unknown", "nobody wrote down where it was measured"))
    order = (Tone.BAD, Tone.WARN, Tone.DIM, Tone.GOOD, Tone.PLAIN)
    return tuple(sorted(lines, key=lambda line: order.index(line.tone)))


def of_comparisons(found: Sequence[Comparison]) -> tuple[Line, ...]:
    """Whether the records may be drawn into one plot."""
    return tuple(_of_comparison(one) for one in found)


def judged(subject: Subject) -> Table | None:
    """Every question with its answer, for whoever wants to see them all; None where nothing was asked."""
    if not subject.judgements:
        return None
    rows = [
        (
            one.question.value,
            "the run" if one.stage is None else f"{one.stage}, pass {one.pass_number}",
            table.text(one.verdict.value, tone_of(one.verdict)),
            one.words,
        )
        for one in subject.judgements
    ]
    return table.table("Every question and its answer", ("question", "of", "verdict", "why"), rows)


def gates(subject: Subject) -> Table | None:
    """What came of each gate, of a qualification or a soak; None for a record without."""
    given = _gates_of(subject)
    if not given:
        return None
    rows: list[Sequence[Cell | str]] = [
        (
            gate.name,
            table.text(gate.verdict.value, tone_of(gate.verdict)),
            gate.detail,
            table.seconds(gate.seconds),
            "; ".join(words.clean(one) for one in gate.evidence),
        )
        for gate in given
    ]
    return table.table("Gates", ("gate", "verdict", "what was seen", "took", "evidence"), rows)


def tone_of(verdict: Verdict) -> Tone:
    """Its colour."""
    match verdict:
        case Verdict.PASSED:
            return Tone.GOOD
        case Verdict.FAILED:
            return Tone.BAD
        case Verdict.UNKNOWN:
            return Tone.WARN
        case Verdict.SKIPPED:
            return Tone.DIM


def tone_of_standing(standing: Standing) -> Tone:
    """Its colour."""
    match standing:
        case Standing.QUALIFIED:
            return Tone.GOOD
        case Standing.EXACT:
            return Tone.PLAIN
        case Standing.NOT_EXACT:
            return Tone.BAD
        case Standing.UNKNOWN:
            return Tone.WARN


def _gates_of(subject: Subject) -> tuple[Gate, ...]:
    record = subject.record
    of_qualification = () if record.qualification is None else record.qualification.gates
    of_soak = () if record.soak is None else soaked.gates(record.soak, record.setting)
    return (*of_qualification, *of_soak)


def _of_soak(subject: Subject) -> Iterable[Line]:
    soak = subject.record.soak
    if soak is None:
        return
    for gate in soaked.gates(soak, subject.record.setting):
        yield Line(tone_of(gate.verdict), f"{gate.name} {gate.verdict.value}", words.clean(gate.detail))


def _of_qualification(subject: Subject) -> Iterable[Line]:
    given = subject.record.qualification
    if given is None:
        return
    if given.qualified:
        yield Line(Tone.GOOD, "qualified", words.clean(f"{given.profile} passed its gates in this environment"))
        return
    missed = [gate.name for gate in given.gates if gate.verdict in (Verdict.FAILED, Verdict.UNKNOWN)]
    why = f"not passed: {', '.join(missed)}" if missed else f"not asked: {', '.join(given.missing)}"
    yield Line(Tone.BAD, "not qualified", words.clean(f"{given.profile}: {why}"))


def _of_judgements(judgements: Sequence[Judgement]) -> Iterable[Line]:
    yield from _merged("spoiled", Tone.BAD, spoiled(judgements))
    yield from _merged(
        "mind", Tone.WARN, [one for one in judgements if one.verdict is Verdict.FAILED and not one.spoils]
    )
    unknown = [one for one in judgements if one.verdict is Verdict.UNKNOWN]
    yield from _merged("unknown", Tone.WARN, unknown)
    asked = {one.question for one in judgements}
    passed = [one for one in asked if all(by.verdict is Verdict.PASSED for by in judgements if by.question is one)]
    if passed:
        names = ", ".join(sorted(one.value for one in passed))
        yield Line(Tone.GOOD, "holds", f"asked, and found in order everywhere: {names}")


def _merged(word: str, tone: Tone, found: Sequence[Judgement]) -> Iterable[Line]:
    """One line for each question, however many stages it is about: the first's words stand for it."""
    by_question: dict[str, list[Judgement]] = {}
    for one in found:
        by_question.setdefault(one.question.value, []).append(one)
    for question, several in by_question.items():
        first = several[0]
        where = "" if first.stage is None else f" in {first.stage}, pass {first.pass_number}"
        more = f" (and in {len(several) - 1} more)" if len(several) > 1 else ""
        yield Line(tone, word, words.clean(f"{question}{where}: {first.words}{more}"))


def _of_rungs(subject: Subject) -> Iterable[Line]:
    record = subject.record
    if record.run is None:
        return
    if record.identity is None:
        yield Line(
            Tone.WARN, "not compared", "its answers were held against no oracle: nothing is known of their identity"
        )
        return
    by: dict[Standing, list[Rung]] = {}
    for rung in subject.rungs:
        by.setdefault(rung.standing, []).append(rung)
    for standing, rungs in by.items():
        names = ", ".join(rung.name for rung in rungs)
        yield Line(_tone_of_line(standing), standing.value, words.clean(f"{names} ({rungs[0].words})"))


def _tone_of_line(standing: Standing) -> Tone:
    return Tone.DIM if standing is Standing.EXACT else tone_of_standing(standing)


def _of_comparison(one: Comparison) -> Line:
    names = f"{one.first.label} and {one.other.label}"
    decisive = [each.words for each in one.found]
    first = words.clean("; ".join(decisive[:3]) + (f"; and {len(decisive) - 3} more" if len(decisive) > 3 else ""))
    if not one.comparable:
        return Line(Tone.BAD, "not comparable", f"{names}: {first}")
    if not one.alike:
        return Line(Tone.WARN, "comparable but for speculation", f"{names}: {first}")
    said = f"as far as is known: {first}" if decisive else "nothing stands between them"
    return Line(Tone.GOOD, "comparable", f"{names}: {said}")
