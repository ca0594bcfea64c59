"""Identity: are these the very tokens that the oracle gave?

The oracle is a run of the same workload on the same configuration without speculation, one request at a time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from arcops.core.evidence.run import Request, Run, Stage

ITSELF: Final = "itself"
"""The oracle's name where a run made its own: what it answered one by one, before what it measured."""
_NOT_FINISHED: Final = "abort"
"""The reason that vLLM gives for an answer that its own end, or a client, cut off."""


@dataclass(frozen=True, slots=True)
class Margin:
    """How near the two tokens were at the place where two answers part, by the server that gave the other answer."""

    oracle: float | None
    """Log-probability of the oracle's token; None where it was not among those that the server names."""
    other: float | None
    unknown: str = ""
    """Why there is none, in words."""

    @property
    def nats(self) -> float | None:
        """By how much the server preferred its own token to the oracle's; near 0 is a tie."""
        return None if self.oracle is None or self.other is None else self.other - self.oracle


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where an answer leaves the oracle's."""

    item: str
    position: int
    """Of the first token that differs, from 0; the length of the shorter answer where one is the other's beginning."""
    oracle_token: int | None
    """None: the oracle's answer has ended."""
    token: int | None
    """None: this answer has ended."""
    margin: Margin | None = None
    """None where one of the two has ended, or nobody asked."""


@dataclass(frozen=True, slots=True)
class StageIdentity:
    """A stage's answers beside the oracle's."""

    stage: str
    pass_number: int
    asked: int
    """Greedy requests of the stage: N of N/N."""
    exact: int
    """Those whose ids are all the oracle's."""
    unknown: int
    """Without ids, without an answer, or without an oracle's answer: never counted as exact."""
    divergences: tuple[Divergence, ...] = ()
    """One for each answer that differs."""

    @property
    def is_exact(self) -> bool:
        """N of N."""
        return self.asked > 0 and self.exact == self.asked


@dataclass(frozen=True, slots=True)
class Identity:
    """A run beside its oracle."""

    oracle: str
    """The digest of the oracle's record, or `itself` where the run made its own sequential pass first."""
    stages: tuple[StageIdentity, ...]
    not_compared: str = ""
    """Why there is nothing, in words: no oracle, another workload, another configuration, an oracle that speculated."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """What a run answered when it was asked one request at a time."""

    answers: Mapping[str, tuple[int, ...]]
    """Token ids by item."""
    wavering: tuple[str, ...] = ()
    """Items that it answered in several ways: for these it is no oracle."""


def by_itself(run: Run) -> Oracle:
    """The oracle that the run itself has: its sequential stages of pass 0, as far as what they asked is measured later.
    A warm-up's own question is none of it."""
    found = _oracle(run, (stage for stage in run.stages if stage.pass_number == 0 and stage.concurrency == 1))
    asked = {one.item for stage in run.stages if stage.pass_number > 0 for one in stage.requests}
    answers = {item: tokens for item, tokens in found.answers.items() if item in asked}
    return Oracle(answers, tuple(item for item in found.wavering if item in asked))


def by_another(run: Run) -> Oracle:
    """The oracle that a run is for others: all of its sequential stages, measured or not.

    Whether it may be one at all is said by `comparable.unfit_as_oracle`.
    """
    return _oracle(run, (stage for stage in run.stages if stage.concurrency == 1))


def same_questions(old: Run, new: Run) -> dict[str, tuple[int, ...]]:
    """What an earlier run answered to what is asked the very same in the new one, by item: what is asked otherwise, or
    of other length, can have another answer by right."""
    before = {item.name: item for item in old.workload.items}
    same = {item.name for item in new.workload.items if before.get(item.name) == item}
    return {name: tokens for name, tokens in by_another(old).answers.items() if name in same}


def asked_otherwise(old: Run, new: Run) -> tuple[str, ...]:
    """Items of the new run that the old one did not have, or had in other words."""
    before = {item.name: item for item in old.workload.items}
    return tuple(item.name for item in new.workload.items if before.get(item.name) != item)


def compare(run: Run, oracle_answers: Mapping[str, tuple[int, ...]]) -> tuple[StageIdentity, ...]:
    """The answers of each measured stage beside the oracle's, by item; in the order of the stages.

    Sampled requests are not asked: their answers may differ by right. Pass 0 is not measured.
    """
    greedy = frozenset(item.name for item in run.workload.items if item.sampling.greedy)
    return tuple(_of_stage(stage, run, greedy, oracle_answers) for stage in run.stages if stage.pass_number > 0)


def open_questions(stages: Iterable[StageIdentity]) -> tuple[Divergence, ...]:
    """The divergences whose margin nobody has asked for yet, each once: in both answers a token stands there."""
    open_ones = (
        one
        for stage in stages
        for one in stage.divergences
        if one.margin is None and one.token is not None and one.oracle_token is not None
    )
    return tuple(dict.fromkeys(open_ones))


def with_margins(stages: Iterable[StageIdentity], margins: Mapping[Divergence, Margin]) -> tuple[StageIdentity, ...]:
    """The stages with the margins that were asked for, by the divergence that `open_questions` gave."""
    return tuple(
        replace(
            stage, divergences=tuple(replace(one, margin=margins.get(one, one.margin)) for one in stage.divergences)
        )
        for stage in stages
    )


def without_margins(stages: Iterable[StageIdentity]) -> tuple[StageIdentity, ...]:
    """The stages as the answers alone tell them."""
    return tuple(
        replace(stage, divergences=tuple(replace(one, margin=None) for one in stage.divergences)) for stage in stages
    )


def diverges(item: str, oracle: tuple[int, ...], tokens: tuple[int, ...]) -> Divergence | None:
    """Where an answer leaves the oracle's; None where it is the very same."""
    if tokens == oracle:
        return None
    shared = zip(oracle, tokens, strict=False)
    shorter = min(len(oracle), len(tokens))
    position = next((at for at, (ours, theirs) in enumerate(shared) if ours != theirs), shorter)
    return Divergence(item, position, _token(oracle, position), _token(tokens, position))


def tokens_of(request: Request, run: Run) -> tuple[int, ...] | None:
    """The ids of a complete answer; None where there is none, where it was cut off, or the server gives no ids."""
    if request.problem or request.ended is None or request.finish == _NOT_FINISHED or request.answer is None:
        return None
    return run.answers.get(request.answer)


def _token(tokens: tuple[int, ...], position: int) -> int | None:
    return tokens[position] if position < len(tokens) else None


def _oracle(run: Run, stages: Iterable[Stage]) -> Oracle:
    given: dict[str, set[tuple[int, ...]]] = {}
    for stage in stages:
        for request in stage.requests:
            tokens = tokens_of(request, run)
            if tokens is not None:
                given.setdefault(request.item, set()).add(tokens)
    answers = {item: next(iter(found)) for item, found in given.items() if len(found) == 1}
    return Oracle(answers, tuple(sorted(item for item, found in given.items() if len(found) > 1)))


def _of_stage(
    stage: Stage, run: Run, greedy: frozenset[str], oracle_answers: Mapping[str, tuple[int, ...]]
) -> StageIdentity:
    asked = [request for request in stage.requests if request.item in greedy]
    pairs = [(request.item, tokens_of(request, run), oracle_answers.get(request.item)) for request in asked]
    known = [(item, tokens, oracle) for item, tokens, oracle in pairs if tokens is not None and oracle is not None]
    divergences = tuple(_divergences(known))
    return StageIdentity(
        stage=stage.name,
        pass_number=stage.pass_number,
        asked=len(asked),
        exact=len(known) - len(divergences),
        unknown=len(asked) - len(known),
        divergences=divergences,
    )


def _divergences(known: Iterable[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> Iterator[Divergence]:
    for item, tokens, oracle in known:
        found = diverges(item, oracle, tokens)
        if found is not None:
            yield found
