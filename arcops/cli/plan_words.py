"""The plan of a profile in words: a verdict, the card as a bar, a table of allocations, the cache, the ceiling."""

from collections.abc import Iterable, Iterator
from typing import Final

from arcops import wire, words
from arcops.cli.output import Style, paint
from arcops.core.budget.bar import PARTS, Part, bar_of

_STYLES: Final = {"fits": Style.GREEN, "close": Style.YELLOW, "does not fit": Style.RED, "unknown": Style.YELLOW}
_INKS: Final = {Part.OTHERS: Style.RED, Part.WEIGHTS: Style.GREEN, Part.REST: Style.YELLOW, Part.FREE: Style.DIM}
_UNPLANNED: Final = "not planned"
_INDENT: Final = "  "
_SIZE: Final = 12
_BASIS: Final = 9
_LEAST: Final = 24
"""Columns that an item's words have beside its size, or they have lines of their own."""
_LABEL: Final = 20


def lines_of(plan: wire.PlanInfo, width: int) -> list[str]:
    """The whole plan in lines of at most `width` columns."""
    return [
        *_verdict(plan, width),
        "",
        *_bar(plan, width),
        *_table(plan, width),
        "",
        *_labelled(facts(plan), width),
    ]


def verdict_of(plan: wire.PlanInfo) -> str:
    """The verdict's words: where nobody planned for the room nothing is unknown about it."""
    return _UNPLANNED if plan.fit == "unknown" and not plan.cards else plan.fit


def _verdict(plan: wire.PlanInfo, width: int) -> Iterator[str]:
    said = verdict_of(plan)
    yield f"{words.clean(plan.profile)} on {words.clean(plan.place)}: {paint(said, _STYLES[plan.fit])}"
    told = [plan.reason, *([plan.room.absent] if plan.room.absent != plan.reason else []), *plan.remarks]
    for text in filter(None, told):
        for line in _folded(text, width - len(_INDENT)):
            yield _INDENT + line


def _bar(plan: wire.PlanInfo, width: int) -> Iterator[str]:
    sizes = [(item.use, item.bytes) for item in plan.items]
    found = bar_of(sizes, plan.room.total, plan.room.foreign, width - 2 * len(_INDENT))
    if found is None:
        return
    yield _INDENT + "".join(
        paint(part.value * cells, _INKS[part]) if part in _INKS else part.value * cells for part, cells in found.parts
    )
    if found.end is not None:
        said = f"the card's {words.mebibytes(plan.room.total or 0)} end here"
        mark = f"▲ {said}" if found.end + len(said) + 2 <= width - 2 * len(_INDENT) else f"{said} ▲"
        start = found.end if mark.startswith("▲") else max(0, found.end - len(mark) + 1)
        yield _INDENT + " " * start + mark
    yield ""


def _table(plan: wire.PlanInfo, width: int) -> Iterator[str]:
    names = max(len(item.name) for item in plan.items)
    drawn = plan.total is not None
    for item in plan.items:
        yield from _row(item, names, width, drawn)
    rest = f"{'':<{_BASIS}}"
    yield _sum(" ", "together", plan.total, names, rest)
    if plan.room.total is None:
        return
    foreign = plan.room.foreign
    if foreign != 0:
        yield _sum(Part.OTHERS.value, "others hold now", foreign, names, rest)
    left = None if plan.total is None or foreign is None else plan.room.total - foreign - plan.total
    if left is not None:
        yield _sum(Part.FREE.value if left >= 0 else " ", "left" if left >= 0 else "lacking", abs(left), names, rest)


def _row(item: wire.PlanItem, names: int, width: int, drawn: bool) -> Iterator[str]:
    """`█ KV cache   6,656 MiB  exact      fixed by kv_cache_memory`, with what does not fit on lines below."""
    sign = PARTS[item.use].value if drawn else " "
    start = f"{_INDENT}{sign} {item.name:<{names}}  {_size(item.bytes):>{_SIZE}}  {item.basis:<{_BASIS}}  "
    room = width - len(start)
    if room < _LEAST:
        yield start.rstrip()
        for text in _folded(item.words, width - 3 * len(_INDENT)):
            yield 3 * _INDENT + text
        return
    first, *more = _folded(item.words, room) or [""]
    yield (start + first).rstrip()
    for text in more:
        yield " " * len(start) + text


def _sum(sign: str, name: str, size: int | None, names: int, rest: str) -> str:
    return f"{_INDENT}{sign} {name:<{names}}  {_size(size):>{_SIZE}}  {rest}".rstrip()


def _size(size: int | None) -> str:
    return "unknown" if size is None else words.mebibytes(size)


def _labelled(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """`longest context     262,144 tokens`; a label that is that of the row above is not written again."""
    before = ""
    for label, text in rows:
        for line in _folded(text, width - _LABEL):
            yield f"{'' if label == before else label:<{_LABEL}}{line}"
            before = label


def facts(plan: wire.PlanInfo) -> Iterator[tuple[str, str]]:
    """What there is to say below the table, each with its label."""
    if plan.cache is not None:
        yield from _cache(plan.cache, plan)
    yield from _speed(plan)
    for advice in plan.advice:
        yield "what would help", advice


def _cache(cache: wire.PlanCache, plan: wire.PlanInfo) -> Iterator[tuple[str, str]]:
    groups = "1 group" if cache.groups == 1 else f"{cache.groups} groups"
    block = f"{cache.block_tokens:,} tokens, {words.mebibytes(cache.block_bytes)} for {groups} of layers"
    yield "a block", block
    need = f"{cache.blocks_a_request:,} blocks; {words.mebibytes(cache.smallest_pool)} with the null block"
    yield "a whole context", f"{cache.context:,} tokens: {need}"
    if plan.pool is None or cache.tokens is None:
        yield "the cache holds", "unknown, as its size is"
        return
    many = cache.most_sequences or 0
    whole = "1 whole context" if many == 1 else f"{many:,} whole contexts at once"
    yield "the cache holds", f"{cache.tokens:,} tokens by vLLM's count, {whole}"
    yield "longest context", f"{cache.longest_context:,} tokens" if cache.longest_context else "none at all"


def _speed(plan: wire.PlanInfo) -> Iterator[tuple[str, str]]:
    """The ceiling, and under it what was measured."""
    for one in plan.ceilings:
        drafts = "" if one.speculative is None else f", {one.speculative:,.0f} with {plan.accepted:.2f} a step"
        yield "decoding at most", f"{one.tokens_per_second:,.0f} tokens/s at {one.depth:,} tokens{drafts}"
    decode = plan.decode
    if decode is not None:
        when = "now, one request running" if decode.source == "now" else "in the last day's fastest minute"
        steps = "" if decode.tokens_per_step is None else f", {decode.tokens_per_step:.2f} a step"
        yield "measured", f"{decode.tokens_per_second:,.0f} tokens/s {when}{steps}"
    elif plan.ceilings:
        yield "measured", "nothing yet of one request by itself"


def _folded(text: str, width: int) -> list[str]:
    """Words of files and drivers are foreign text."""
    return words.folded(words.clean(text), width)
