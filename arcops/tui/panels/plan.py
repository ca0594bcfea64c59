"""The plan of a profile: a verdict, the card as a bar with what takes it, and what the cache holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from arcops import wire, words
from arcops.core.budget.bar import PARTS, Part, bar_of
from arcops.tui.ink import Ink, Line, Lines, plain, quiet, rule

_INKS: Final = {"fits": Ink.GOOD, "close": Ink.WARN, "does not fit": Ink.BAD}
_PARTS: Final = {
    Part.OTHERS: Ink.BAD,
    Part.WEIGHTS: Ink.BAR,
    Part.CACHE: Ink.BAR,
    Part.REST: Ink.WARN,
    Part.FREE: Ink.QUIET,
}
_SIZE: Final = 11
_MARGIN: Final = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking for a plan."""

    plan: wire.PlanInfo | None = None
    problem: str = ""
    """Why there is none, in words; empty while it is read."""


def verdict(answer: Answer, width: int) -> Lines:
    """`memory: fits; it needs 29,050 MiB, and the card has 32,656 MiB`, or why nobody can say."""
    plan = answer.plan
    if plan is None:
        said = words.unknown(answer.problem) if answer.problem else "reading the checkpoint…"
        return _labelled("memory", said, "", Ink.PLAIN, width)
    said = "not planned" if plan.fit == "unknown" and not plan.cards else plan.fit
    return _labelled("memory", said, f"; {plan.reason}" if plan.reason else "", _INKS.get(plan.fit, Ink.PLAIN), width)


def table(plan: wire.PlanInfo, width: int) -> Lines:
    """The whole plan, below everything else of the profile."""
    return (
        (),
        rule("Memory", width, remark=words.clean(plan.place)),
        *_bar(plan, width),
        *_items(plan, width),
        *_rest(plan, width),
    )


def _bar(plan: wire.PlanInfo, width: int) -> Iterator[Line]:
    sizes = [(item.use, item.bytes) for item in plan.items]
    found = bar_of(sizes, plan.room.total, plan.room.foreign, width)
    if found is None:
        return
    yield tuple((part.value * cells, _PARTS[part]) for part, cells in found.parts)
    if found.end is not None:
        said = "the card ends here"
        mark = f"▲ {said}" if found.end + len(said) + 2 <= width else f"{said} ▲"
        start = found.end if mark.startswith("▲") else max(0, found.end - len(mark) + 1)
        yield ((" " * start + mark, Ink.BAD),)


def _items(plan: wire.PlanInfo, width: int) -> Iterator[Line]:
    names = max((len(item.name) for item in plan.items), default=0)
    names = max(names, len("others hold now"))
    drawn = plan.total is not None
    for item in plan.items:
        part = PARTS[item.use]
        yield (
            (f"{part.value if drawn else ' '} ", _PARTS[part]),
            plain(f"{item.name:<{names}} {_size(item.bytes):>{_SIZE}}  "),
            quiet(item.basis),
        )
    yield (plain(f"  {'together':<{names}} {_size(plan.total):>{_SIZE}}"),)
    total, foreign = plan.room.total, plan.room.foreign
    if total is None:
        return
    if foreign != 0:
        yield ((f"{Part.OTHERS.value} ", Ink.BAD), plain(f"{'others hold now':<{names}} {_size(foreign):>{_SIZE}}"))
    if plan.total is not None and foreign is not None:
        left = total - foreign - plan.total
        sign, name, ink = (Part.FREE.value, "left", Ink.PLAIN) if left >= 0 else (" ", "lacking", Ink.BAD)
        yield (quiet(f"{sign} "), (f"{name:<{names}} {_size(abs(left)):>{_SIZE}}", ink))


def _rest(plan: wire.PlanInfo, width: int) -> Iterator[Line]:
    cache = plan.cache
    if cache is not None:
        longest = "unknown" if plan.pool is None else words.count(cache.longest_context)
        yield from _labelled(
            "longest context", f"{longest} tokens" if longest != "unknown" else longest, "", Ink.PLAIN, width
        )
        yield from _labelled("the cache holds", _held(cache), "", Ink.PLAIN, width)
    for one in plan.ceilings[-1:]:
        drafts = "" if one.speculative is None else f", {one.speculative:,.0f} with its drafts"
        yield from _labelled(
            "decoding at most",
            f"{one.tokens_per_second:,.0f} tok/s at {one.depth:,} tokens{drafts}",
            "",
            Ink.PLAIN,
            width,
        )
    if plan.decode is not None:
        when = "now" if plan.decode.source == "now" else "at its fastest in a day"
        yield from _labelled("measured", f"{plan.decode.tokens_per_second:,.0f} tok/s {when}", "", Ink.PLAIN, width)
    for remark in plan.remarks:
        yield from _labelled("note", remark, "", Ink.PLAIN, width)
    for advice in plan.advice:
        yield from _labelled("would help", advice, "", Ink.STRONG, width)


def _held(cache: wire.PlanCache) -> str:
    if cache.tokens is None or cache.most_sequences is None:
        return "unknown, as its size is"
    many = cache.most_sequences
    whole = "1 whole context" if many == 1 else f"{many:,} whole contexts at once"
    return f"{cache.tokens:,} tokens by vLLM's count, {whole}"


def _labelled(label: str, said: str, more: str, ink: Ink, width: int) -> Lines:
    """`label: said` with the rest of it plain, on as many lines as it takes."""
    lines = words.wrapped(f"{label}: {said}{more}", width - _MARGIN, most=4)
    first = lines[0].removeprefix(f"{label}:")
    clean = f" {words.clean(said)}"
    head = ((clean, ink), plain(first.removeprefix(clean))) if first.startswith(clean) else ((first, ink),)
    return ((quiet(f"{label}:"), *head), *((plain(f"  {text}"),) for text in lines[1:]))


def _size(size: int | None) -> str:
    return "unknown" if size is None else words.mebibytes(size)
