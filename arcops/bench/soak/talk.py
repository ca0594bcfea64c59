"""One request of a client, from its sending to its end, and what is wrong with its answer."""

from typing import Final

from arcops.bench.chat import ChatAnswer, ask_chat
from arcops.bench.server import BenchServer
from arcops.bench.soak.fold import Done
from arcops.bench.soak.work import Task
from arcops.bench.tools import CASES, judge

PATIENCE: Final = 300.0
"""Seconds for one request."""
ASKING: Final = 60.0
"""Seconds for the question whether tools are taken at all."""
_PARSER: Final = "--tool-call-parser"
"""What vLLM names when it refuses tools for want of it."""


async def talk(server: BenchServer, client: int, task: Task) -> Done:
    """Ask, and listen to the end or until the client leaves. Never raises for the server's sake."""
    sent, case = server.now(), task.case
    answer = await ask_chat(
        server,
        task.messages,
        max_tokens=task.max_tokens,
        stream=True,
        tools=() if case is None else case.tools,
        tool_choice=None if case is None else case.choice,
        within=PATIENCE,
        leave_after=task.leave_after,
    )
    return Done(
        kind=task.kind,
        client=client,
        sent=sent,
        seconds=answer.seconds,
        ttft=answer.first,
        between=_between(answer),
        problem=wrong(task, answer),
    )


async def refused_tools(server: BenchServer) -> str:
    """Why the server takes no tool calls, in its words; empty unless it wants a parser for them. Never raises.

    Asked once, for one token: a server without a parser refuses every such request, whatever function it names.
    """
    case = CASES[0]
    answer = await ask_chat(
        server, case.messages, max_tokens=1, tools=case.tools, tool_choice=case.choice, within=ASKING
    )
    refused = answer.problem.startswith("HTTP 400") and _PARSER in answer.problem
    return answer.problem if refused else ""


def wrong(task: Task, answer: ChatAnswer) -> str:
    """What is wrong with an answer, as `WHAT: details`; empty where nothing is."""
    if answer.problem or answer.left:
        return answer.problem
    if not answer.chunks:
        return "the answer is empty"
    return "" if task.case is None else judge(task.case, answer, named=True)


def _between(answer: ChatAnswer) -> float | None:
    """Mean inter-token latency in seconds; with speculation several tokens come in one chunk."""
    count = answer.chunks if answer.output_tokens is None else answer.output_tokens
    if answer.left or answer.first is None or answer.last is None or answer.chunks < 2 or count < 2:
        return None
    return (answer.last - answer.first) / (count - 1)
