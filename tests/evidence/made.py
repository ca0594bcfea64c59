"""Made-up records with figures that can be reckoned by hand, for what draws and tells them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from arcops.core.evidence.identity import Identity, by_itself, compare
from arcops.core.evidence.run import Canary, ClientLoad, Counters, Request, Run, Stage, Watched
from arcops.core.evidence.setting import Befallen, CardFacts, CardSample, CeilingAt, Configuration, ServerFacts, Setting
from arcops.core.evidence.work import Item, digest, digest_of_tokens, workload
from arcops.evidence import shelf
from arcops.evidence.record import FORMAT, Record
from arcops.evidence.shelf import Stored

STARTED = 1_796_000_000.0
CARD = "0000:03:00.0"
TOKENS = 40
"""Of each answer."""
KINDS = ("prose", "code", "documents")


def asked(item: Item, user: int, sent: float, *, ttft: float, gap: float, odd: bool = False) -> Request:
    """Chunks of one token, `gap` seconds apart, but for a stutter that grows with the place in the answer."""
    arrivals = tuple(ttft + gap * n + 0.0002 * gap * n * n for n in range(TOKENS))
    return Request(
        item=item.name,
        user=user,
        sent=sent,
        arrivals=arrivals,
        chunk_tokens=(1,) * TOKENS,
        ended=arrivals[-1],
        prompt_tokens=len(item.prompt),
        output_tokens=TOKENS,
        cached_tokens=0,
        finish="length",
        answer=digest_of_tokens(said(item.name, odd=odd)),
    )


def said(item: str, *, odd: bool = False) -> tuple[int, ...]:
    """The ids of an answer; an odd one differs from its 31st token on."""
    start = sum(item.encode()) * 7
    return tuple(start + n + (1000 if odd and n >= 30 else 0) for n in range(TOKENS))


def stage(
    requests: Sequence[Request], name: str, number: int, *, depth: int | None = None, warm: bool | None = None
) -> Stage:
    began = min(one.sent for one in requests)
    ended = max(one.sent + (one.ended or 0.0) for one in requests)
    users = len({one.user for one in requests})
    given = sum(one.output_tokens or 0 for one in requests)
    read = sum(one.prompt_tokens or 0 for one in requests)
    before = Counters(
        at=began,
        server_started=STARTED,
        running=0.0,
        waiting=0.0,
        prompt_tokens=1000.0,
        generation_tokens=1000.0,
        prefix_queries=1000.0,
        prefix_hits=0.0,
        preemptions=0.0,
        drafts=0.0,
        draft_tokens=0.0,
        accepted_tokens=0.0,
    )
    after = replace(
        before,
        at=ended,
        prompt_tokens=1000.0 + read,
        generation_tokens=1000.0 + given,
        prefix_queries=1000.0 + read,
        drafts=given / 2.5,
        draft_tokens=given / 2.5 * 3,
        accepted_tokens=given / 2.5 * 1.5,
    )
    load = ClientLoad(ended - began, 0.02 * (ended - began), 0.0001, 0.0005, 0.002)
    watched = Watched(4, float(users), 0.0, 0.1)
    return Stage(name, number, users, depth, warm, before, after, watched, load, tuple(requests))


def ladder(rungs: Sequence[int] = (1, 2, 4, 8, 16, 32, 64), *, gap: float = 0.012, odd_from: int = 32) -> Run:
    """Two passes, the first cold; from some rung on one answer is not the oracle's."""
    items = tuple(Item(f"item-{n}", KINDS[n % 3], (7,) * 96, TOKENS) for n in range(max(rungs)))
    at = 1.0
    stages = [stage([asked(item, 0, 1.0 + n, ttft=0.05, gap=gap) for n, item in enumerate(items)], "oracle", 0)]
    at += len(items) + 2
    for number in (1, 2):
        for users in rungs:
            slow = 1 + users * (0.028 if number == 2 else 0.034)
            requests = [
                asked(items[n], n, at, ttft=0.05 * slow + 0.002 * n, gap=gap * slow, odd=users >= odd_from and n == 1)
                for n in range(users)
            ]
            stages.append(stage(requests, f"c{users}", number, warm=number == 2))
            at += 4
    return run("ladder", items, stages)


def context(*, gap: float = 0.009, depths: Sequence[int] = (2048, 4096, 8192, 16384, 24576, 32768)) -> Run:
    """Three requests a depth."""
    items = tuple(Item(f"{depth}-{kind}", kind, (7,) * depth, TOKENS) for depth in depths for kind in KINDS)
    stages = [stage([asked(one, 0, 1.0 + n, ttft=0.1, gap=gap) for n, one in enumerate(items)], "oracle", 0)]
    at = 30.0
    for depth in depths:
        requests: list[Request] = []
        for n, item in enumerate(one for one in items if one.name.startswith(f"{depth}-")):
            requests.append(
                asked(item, 0, at, ttft=depth / 3800 * (1 + 0.04 * n), gap=gap * (1 + depth / 90000) * (1 + 0.03 * n))
            )
            at += 12
        stages.append(stage(requests, str(depth), 1, depth=depth))
    return run("context", items, stages)


def suite(servers: int = 2) -> Run:
    """Two prompts of each of six classes, on fresh servers."""
    kinds = ("chat", "code", "json", "maths", "prose", "summary")
    items = tuple(Item(f"{kind}-{n}", kind, f"{kind} {n}", TOKENS) for kind in kinds for n in (1, 2))
    stages: list[Stage] = []
    at = 1.0
    for server in range(1, servers + 1):
        requests: list[Request] = []
        for n, item in enumerate(items):
            requests.append(asked(item, 0, at, ttft=0.05, gap=0.008 + 0.0006 * n + 0.0001 * server))
            at += 2
        made = stage(requests, f"server-{server}", 1)
        started = STARTED + 600.0 * server
        stages.append(
            replace(
                made,
                before=replace(made.before, server_started=started),
                after=replace(made.after, server_started=started),
            )
        )
    return run("suite", items, stages)


def run(name: str, items: Sequence[Item], stages: Sequence[Stage]) -> Run:
    """With all answers that its stages have."""
    both = [said(item.name, odd=odd) for item in items for odd in (False, True)]
    given = {one.answer for part in stages for one in part.requests}
    answers = {key: tokens for tokens in both if (key := digest_of_tokens(tokens)) in given}
    canaries = tuple(Canary(when, "2+2", digest(b"4"), "4") for when in ("before", "after"))
    return Run(workload(name, {"concurrency": "1..64"}, tuple(items)), tuple(stages), answers, canaries)


def setting(
    measured: Run, *, profile: str = "mtp", befallen: tuple[Befallen, ...] = (), ceilings: tuple[CeilingAt, ...] = ()
) -> Setting:
    """On one card, that was looked at twice a second."""
    end = max(one.sent + (one.ended or 0.0) for part in measured.stages for one in part.requests)
    samples = tuple(
        CardSample(n / 2, CARD, (20 << 30) + (n % 7) * (64 << 20), 140.0 + 60 * (n % 9) / 9, 55.0 + n % 5, 2400.0)
        for n in range(int(end * 2))
    )
    argv = (
        "vllm",
        "serve",
        "/opt/models/tiny",
        "--port",
        "8000",
        "--max-num-seqs",
        "64",
        "--served-model-name",
        "tiny",
    )
    configuration = Configuration(
        source="daemon",
        profile=profile,
        launch_id="20261130-1",
        argv=argv,
        environment=(("ONEAPI_DEVICE_SELECTOR", "level_zero:gpu"),),
        max_num_seqs=64,
        environment_digest=digest(b"environment"),
    )
    cache = {"block_size": "16", "num_gpu_blocks": "4096"}
    server = ServerFacts("http://127.0.0.1:8000", "0.29.0", "tiny", "/opt/models/tiny", 33024, cache, speculates=True)
    card = CardFacts(CARD, "Arc Pro B70", "xe", 32 << 30, 608e9)
    return Setting(server, configuration, (card,), samples, befallen, "daemon", ceilings)


def record(measured: Run, where: Setting | None = None, *, note: str = "", began: float = STARTED + 100) -> Record:
    """With its own oracle, where it has one."""
    has_oracle = any(part.pass_number == 0 for part in measured.stages)
    return Record(
        arcops_record=FORMAT,
        kind=measured.workload.name,
        arcops="0.1.0",
        began=began,
        ended=began + 90.0,
        command=("arcops", "bench", measured.workload.name, "--url", "http://127.0.0.1:8000"),
        note=note,
        run=measured,
        setting=setting(measured) if where is None else where,
        identity=Identity("itself", compare(measured, by_itself(measured).answers)) if has_oracle else None,
    )


def stored(folder: Path, made: Record) -> Stored:
    """On a shelf, and read from it."""
    return shelf.write(folder, made)
