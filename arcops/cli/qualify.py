"""`arcops qualify`: hold a profile to its gates before it replaces what works."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from arcops.cli import output
from arcops.cli.durations import seconds
from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.qualification import UNKNOWN_ENVIRONMENT, Gate, Qualification, Verdict
from arcops.words import clean

if TYPE_CHECKING:
    from arcops.evidence.qualify.seen import Question
    from arcops.evidence.shelf import Stored

T = TypeVar("T")
_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def qualify(
    ctx: typer.Context,
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="What is to qualify; see `arcops profile list`.")],
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Ask this server, whoever started it; it never counts.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Where the server has several.")] = None,
    api_key_file: Annotated[
        Path | None, typer.Option("--api-key-file", metavar="FILE", help="A file with the server's key.")
    ] = None,
    chat_prompt: Annotated[
        str | None, typer.Option("--chat-prompt", metavar="TEXT", help="Another chat than the gate's own.")
    ] = None,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="TEXT", help="What has to stand in its answer.")
    ] = None,
    long_tokens: Annotated[
        int | None, typer.Option("--long", min=32, metavar="TOKENS", help="Of the long request's prompt.")
    ] = None,
    soak: Annotated[
        str | None, typer.Option("--soak", metavar="TIME", help="Mixed clients for so long, e.g. 5m.")
    ] = None,
    image: Annotated[
        Path | None, typer.Option("--image", metavar="FILE", help="A picture that has to be answered.")
    ] = None,
    headroom: Annotated[
        int | None, typer.Option("--headroom", min=0, metavar="MIB", help="What must be left of each card.")
    ] = None,
    accept_divergence: Annotated[
        str | None,
        typer.Option("--accept-divergence", metavar="REASON", help="Other answers than the last time are right."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Let it run where it qualifies.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What ought to be known of it.")] = "",
    to: Annotated[
        Path | None, typer.Option("--to", metavar="PLACE", help="A folder or a new .json file for the record.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Run PROFILE, ask it everything that it has to be able to do, and bring back what ran before.

    Where a gate fails, what ran before runs again in any case.
    """
    from arcops.evidence.qualify.run import qualify as hold
    from arcops.evidence.qualify.wanted import Asked

    if accept_divergence is not None and not accept_divergence.strip():
        raise ArcopsError("--accept-divergence wants a reason", exit_code=ExitCode.USAGE)
    paths = Paths.of(instance_of(ctx))
    asked = Asked(
        profile=profile,
        place=to or paths.records,
        command=("arcops", *sys.argv[1:]),
        url=url,
        model=model,
        api_key_file=api_key_file,
        question=_question(chat_prompt, expect),
        long_tokens=long_tokens,
        headroom=None if headroom is None else headroom << 20,
        soak=None if soak is None else seconds(soak, least=1.0),
        image=image,
        accepted=accept_divergence or "",
        keep=keep,
        note=note,
    )
    done = until_told(hold(asked, paths, _progress))
    _show(done.stored, paths.records, as_json=as_json)
    if done.unreturned is not None:
        output.fail(done.unreturned)
    output.leave(code_of(done.stored.record.qualification))


def until_told(work: Coroutine[Any, Any, T]) -> T:
    """Run it. Ctrl-C, SIGTERM and the terminal's closing cancel it, so that it can bring back what ran before; then the
    program ends as a shell expects it. Only Ctrl-C counts a second time: terminals and services send theirs twice.
    """
    told: list[int] = []

    async def run() -> T:
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)

        def end(number: int) -> None:
            if not told or number == signal.SIGINT:
                told.append(number)
                task.cancel()

        # What nohup, or a shell for what it runs behind, has switched off stays so.
        heard = [one for one in _ENDS if signal.getsignal(one) is not signal.SIG_IGN]
        for number in heard:
            loop.add_signal_handler(number, end, number)
        try:
            return await task
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if not told:
            raise
        output.ended_by(told[0])


def code_of(given: Qualification | None) -> ExitCode:
    """Of the verdicts: 0 qualified, 7 it did not even start, 1 otherwise."""
    if given is not None and given.qualified:
        return ExitCode.DONE
    start = None if given is None else next((gate for gate in given.gates if gate.name == "start"), None)
    return ExitCode.BACKEND_FAILED if start is not None and start.verdict is Verdict.FAILED else ExitCode.FAILED


def lines(given: Qualification) -> list[str]:
    """A line for each gate, what a failure is known by below it, and the verdict."""
    width = max((len(gate.name) for gate in given.gates), default=0)
    told: list[str] = []
    for gate in given.gates:
        told.append(f"{gate.verdict.value:8} {gate.name:{width}}  {clean(gate.detail)}")
        told += [f"{'':8} {'':{width}}  {clean(line)}" for line in _below(gate)]
    return [*told, clean(verdict(given))]


def verdict(given: Qualification) -> str:
    """In one line, with the reason where it is not the best."""
    if given.qualified and given.environment_digest == UNKNOWN_ENVIRONMENT:
        return f"{given.profile} has passed its gates, in an environment that is not known: no switch goes by that"
    if given.qualified:
        return f"{given.profile} has qualified"
    bad = [gate.name for gate in given.gates if gate.verdict in (Verdict.FAILED, Verdict.UNKNOWN)]
    why = bad or [f"{name} was not asked" for name in given.missing]
    return f"{given.profile} has not qualified: {', '.join(why)}"


def _below(gate: Gate) -> tuple[str, ...]:
    return gate.evidence if gate.verdict is not Verdict.SKIPPED else ()


def _question(prompt: str | None, expect: str | None) -> "Question | None":
    from arcops.evidence.qualify.seen import Question

    if prompt is None and expect is None:
        return None
    if not prompt or not expect:
        raise ArcopsError("--chat-prompt and --expect go together", exit_code=ExitCode.USAGE)
    return Question(prompt, expect, exactly=False)


def _progress(words: str) -> None:
    output.note(clean(words))


def _show(stored: "Stored", records: Path, *, as_json: bool) -> None:
    given = stored.record.qualification
    if as_json:
        from arcops.cli.bench_json import shown
        from arcops.evidence.oracle import followed

        output.json_data(shown(stored, followed(stored, records)))
    elif given is not None:
        output.data("\n".join(lines(given)))
