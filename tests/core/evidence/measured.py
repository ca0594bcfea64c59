"""Made-up runs: a ladder on a server that does as it should, to be spoiled in one place each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from arcops.core.evidence.identity import Identity, by_itself, compare
from arcops.core.evidence.run import Canary, ClientLoad, Counters, Request, Run, Stage, Watched
from arcops.core.evidence.setting import CardFacts, Configuration, ServerFacts, Setting
from arcops.core.evidence.work import GREEDY, Item, Sampling, digest, digest_of_tokens, workload
from arcops.evidence.record import FORMAT, Record

STARTED = 1_796_000_000.0
"""When the made-up server started, in seconds since the epoch."""
ARGV = ("vllm", "serve", "/opt/models/tiny", "--port", "8000", "--max-num-seqs", "4")
DRAFTS = ("--speculative-config", '{"method":"mtp","num_speculative_tokens":2}')
CARD = CardFacts("0000:03:00.0", "Arc Pro B70", "xe", 32 << 30)
PROMPT = 100
"""Tokens of each prompt."""


def items(number: int = 4, sampling: Sampling = GREEDY) -> tuple[Item, ...]:
    return tuple(Item(f"item-{n}", "prose", f"Say {n}.", 4, sampling) for n in range(number))


def answer_to(item: str) -> tuple[int, ...]:
    """What the made-up model says."""
    return tuple(ord(character) for character in item[-4:])


def request(item: str, user: int = 0, sent: float = 1.0, tokens: tuple[int, ...] | None = None) -> Request:
    said = answer_to(item) if tokens is None else tokens
    arrivals = tuple(0.1 + 0.05 * number for number in range(len(said)))
    return Request(
        item=item,
        user=user,
        sent=sent,
        arrivals=arrivals,
        chunk_tokens=(1,) * len(said),
        ended=arrivals[-1] + 0.001 if arrivals else 0.1,
        prompt_tokens=PROMPT,
        output_tokens=len(said),
        cached_tokens=0,
        finish="length",
        answer=digest_of_tokens(said),
    )


def counters(at: float, started: float | None = STARTED, tokens: int = 0, prompts: int = 0, hits: int = 0) -> Counters:
    return Counters(
        at=at,
        server_started=started,
        running=0.0,
        waiting=0.0,
        prompt_tokens=float(prompts),
        generation_tokens=float(tokens),
        prefix_queries=float(prompts),
        prefix_hits=float(hits),
        preemptions=0.0,
    )


def stage(
    requests: Sequence[Request],
    name: str | None = None,
    pass_number: int = 1,
    *,
    warm: bool | None = None,
    hits: int = 0,
    started: float | None = STARTED,
) -> Stage:
    users = len({one.user for one in requests})
    given = sum(one.output_tokens or 0 for one in requests)
    read = sum(one.prompt_tokens or 0 for one in requests)
    return Stage(
        name=name or f"c{users}",
        pass_number=pass_number,
        concurrency=users,
        depth=None,
        warm=warm,
        before=counters(0.5, started, 1000, 5000, 300),
        after=counters(3.0, started, 1000 + given, 5000 + read, 300 + hits),
        watched=Watched(4, float(users), 0.0, 0.1),
        client=ClientLoad(2.5, 0.1, 0.0001, 0.0005, 0.002),
        requests=tuple(requests),
    )


def canaries(after: str = "4") -> tuple[Canary, ...]:
    return (
        Canary("before", "2+2", digest(b"4"), "4"),
        Canary("after", "2+2", digest(after.encode()), after),
    )


def run(stages: Iterable[Stage], work: Iterable[Item] | None = None, name: str = "ladder") -> Run:
    """With the answers of all stages."""
    every = tuple(stages)
    told = {one.item for part in every for one in part.requests}
    answers = {digest_of_tokens(answer_to(item)): answer_to(item) for item in sorted(told)}
    asked = tuple(work) if work is not None else tuple(one for one in items(8) if one.name in told)
    return Run(workload(name, {"concurrency": "1,4"}, asked), every, answers, canaries())


def ladder(passes: int = 2, started: float = STARTED, odd: Mapping[int, tuple[int, ...]] | None = None) -> Run:
    """An oracle's own pass, then rungs of one and of four users in each pass.

    `odd` has another answer of item-3 at the rung of four in some passes.
    """
    one_by_one = [request(f"item-{n}", sent=n + 1.0) for n in range(4)]
    stages = [stage(one_by_one, "sequential", 0, started=started)]
    answers: dict[str, tuple[int, ...]] = {}
    for number in range(1, passes + 1):
        other = (odd or {}).get(number)
        four = [request(f"item-{n}", n) for n in range(3)] + [request("item-3", 3, tokens=other)]
        if other is not None:
            answers[digest_of_tokens(other)] = other
        warm = number > 1
        stages += [
            stage([request("item-0")], "c1", number, warm=warm, started=started),
            stage(four, "c4", number, warm=warm, started=started),
        ]
    made = run(stages)
    return replace(made, answers={**made.answers, **answers})


def setting(argv: tuple[str, ...] = ARGV, *, speculates: bool | None = False) -> Setting:
    return Setting(
        server=ServerFacts(
            url="http://127.0.0.1:8000",
            version="0.29.0",
            model="tiny",
            model_root="/opt/models/tiny",
            max_model_len=4096,
            cache={"block_size": "16", "num_gpu_blocks": "800"},
            speculates=speculates,
        ),
        configuration=Configuration(
            source="daemon",
            profile="target-only",
            launch_id="L1",
            argv=argv,
            max_num_seqs=4,
            environment_digest=digest(b"environment"),
        ),
        cards=(CARD,),
        watched_by="daemon",
    )


def itself(measured: Run) -> Identity:
    return Identity("itself", compare(measured, by_itself(measured).answers))


def record(measured: Run | None = None, where: Setting | None = None, *, began: float = 1_796_000_100.0) -> Record:
    """A record of a ladder with its own oracle, as arcops writes it."""
    made = ladder() if measured is None else measured
    return Record(
        arcops_record=FORMAT,
        kind=made.workload.name,
        arcops="0.1.0",
        began=began,
        ended=began + 90.0,
        command=("arcops", "bench", made.workload.name),
        run=made,
        setting=setting() if where is None else where,
        identity=itself(made),
    )
