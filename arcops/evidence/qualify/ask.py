"""Asks a server everything that the gates want to know. What it does wrong is in what comes back, never raised."""

import asyncio
import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from arcops.bench import drive
from arcops.bench.chat import ChatAnswer, ask_chat
from arcops.bench.content.cut import LEAST, Content
from arcops.bench.content.suite import QUESTIONS
from arcops.bench.drive import Heard, Progress
from arcops.bench.server import BenchServer
from arcops.bench.soak.drive import Plan, soak
from arcops.bench.tools import CASES, MAX_TOKENS, ToolCase, agree, judge
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.run import Run, Stage
from arcops.core.evidence.work import Item, workload
from arcops.evidence.qualify.seen import LongSeen, Question, Seen, ToolSeen, Wanted

SUITE: Final = "suite"
"""The stage of the run whose answers are held against those of the last qualified record."""
SUITE_TOKENS: Final = 64
CLIENTS: Final = 4
"""Of the soak."""
_CHAT_TOKENS: Final = 256
_LONG_OUTPUT: Final = 64
_LONG_WITHIN: Final = 1800.0
"""Seconds for the long request."""
_SUITE_WITHIN: Final = 300.0
"""Seconds for one question of the suite."""
_UNKNOWN_LENGTH: Final = 4096
"""Tokens of the long prompt where neither a person nor the server says what it may be."""
_IMAGE_QUESTION: Final = "What does this picture show? Answer in one sentence."
_LARGEST_IMAGE: Final = 20 << 20
_KINDS_OF_IMAGE: Final = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp", ".gif": "gif"}
_MIX: Final = "short=4,long=1,cut=1"


def suite_items() -> tuple[Item, ...]:
    """The twelve questions, shorter than the benchmark's answers: what flips does so early."""
    return tuple(Item(f"{kind}-{number}", kind, prompt, SUITE_TOKENS) for kind, number, prompt in QUESTIONS)


async def ask(
    server: BenchServer,
    wanted: Wanted,
    tell: Progress,
    *,
    parses_tools: bool,
    memory: Callable[[], int | None] = lambda: None,
) -> Seen:
    """Everything, in the order of the gates. `memory`: the bytes of the server's processes, for the soak."""
    first = await server.counters()
    heard = Heard()
    before = await drive.canaries(server, heard, "before")
    tell("chat")
    chat = await _chat(server, wanted.question)
    tools = None
    if wanted.tools:
        tell(f"tools: {len(CASES)} cases, streamed and whole")
        tools = tuple([await _tool(server, case, named=not parses_tools) for case in CASES])
    long = await _long(server, wanted.long_tokens, tell)
    items = suite_items()
    tell(f"identity: {len(items)} questions of up to {SUITE_TOKENS} tokens")
    stage = await _suite(server, heard, items)
    image = None
    if wanted.image is not None:
        tell("image")
        image = await _image(server, wanted.image)
    soaked = None
    if wanted.soak is not None:
        tell(f"soak: {CLIENTS} clients for {wanted.soak:g} s")
        plan = Plan(wanted.soak, CLIENTS, f"{_MIX},tools=1" if parses_tools and wanted.tools else _MIX, 1)
        soaked = await soak(server, plan, tell, ended=asyncio.Event(), memory=memory)
    after = await drive.canaries(server, heard, "after")
    last = await server.counters()
    work = workload("qualification", {"output": str(SUITE_TOKENS)}, items)
    run = Run(work, (stage,), dict(heard.answers), (*before, *after))
    return Seen(chat, tools, not parses_tools, long, run, image, soaked, first, last)


def picture(path: Path) -> str:
    """The file as a `data:` URL. Raises ArcopsError (usage): not there, too large, no kind that servers take."""
    kind = _KINDS_OF_IMAGE.get(path.suffix.lower())
    if kind is None:
        words = f"{path} is no picture by its name"
        raise ArcopsError(words, hint=f"one of {', '.join(_KINDS_OF_IMAGE)}", exit_code=ExitCode.USAGE)
    try:
        if not path.is_file():
            raise ArcopsError(f"there is no picture {path}", exit_code=ExitCode.USAGE)
        with open(path, "rb") as file:
            content = file.read(_LARGEST_IMAGE + 1)
    except OSError as error:
        raise ArcopsError(f"cannot read the picture {path}: {error.strerror}", exit_code=ExitCode.USAGE) from error
    if len(content) > _LARGEST_IMAGE:
        words = f"the picture {path} is larger than {_LARGEST_IMAGE >> 20} MiB"
        raise ArcopsError(words, exit_code=ExitCode.USAGE)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


async def _chat(server: BenchServer, question: Question) -> ChatAnswer:
    return await ask_chat(server, [{"role": "user", "content": question.prompt}], max_tokens=_CHAT_TOKENS)


async def _tool(server: BenchServer, case: ToolCase, *, named: bool) -> ToolSeen:
    async def once(*, stream: bool) -> ChatAnswer:
        return await ask_chat(
            server,
            case.messages,
            max_tokens=MAX_TOKENS,
            stream=stream,
            tools=case.tools,
            tool_choice=case.choice if named else None,
        )

    streamed, whole = await once(stream=True), await once(stream=False)
    wrong = judge(case, streamed, named=named), judge(case, whole, named=named)
    # Where one of both is wrong that says it all; what is right in two ways must be the same.
    apart = "" if any(wrong) else agree(streamed, whole)
    return ToolSeen(case.name, *wrong, apart)


async def _long(server: BenchServer, tokens: int | None, tell: Progress) -> LongSeen:
    longest = server.facts.max_model_len
    if tokens is None:
        tokens = _UNKNOWN_LENGTH if longest is None else max(LEAST, longest * 3 // 4)
    tell(f"long-request: {tokens:,} tokens")
    try:
        prompt = await Content(server.tokenize).mixed("long-request", tokens)
    except ArcopsError as error:
        return LongSeen(tokens, None, problem=error.message)
    output = _LONG_OUTPUT if longest is None else max(1, min(_LONG_OUTPUT, longest - tokens))
    item = Item("long-request", "mixed", prompt, output, to_the_end=True)
    request, ids, text = await server.ask(item, within=_LONG_WITHIN)
    return LongSeen(tokens, request, text, ids or (), output=output)


async def _suite(server: BenchServer, heard: Heard, items: Sequence[Item]) -> Stage:
    return await drive.stage(server, heard, name=SUITE, pass_number=1, users=(tuple(items),), within=_SUITE_WITHIN)


async def _image(server: BenchServer, url: str) -> ChatAnswer:
    parts = [{"type": "text", "text": _IMAGE_QUESTION}, {"type": "image_url", "image_url": {"url": url}}]
    return await ask_chat(server, [{"role": "user", "content": parts}], max_tokens=_CHAT_TOKENS, within=300.0)
