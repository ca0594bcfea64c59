"""`arcops bench long-prompt`, `context`, `ladder` and `suite`: measure, keep the record, show it."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from arcops.cli import output
from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.words import clean

if TYPE_CHECKING:
    from arcops.evidence.shelf import Stored

_K: Final = 1024

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="The server, http://host:port; default: the daemon's.")
]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The served name, where there are several.")]
KeyFile = Annotated[
    Path | None, typer.Option("--api-key-file", metavar="FILE", help="Its first line is the server's API key.")
]
Oracle = Annotated[
    str | None,
    typer.Option("--oracle", metavar="RECORD", help="A record of the same without speculation, to be compared with."),
]
OracleProfile = Annotated[
    str | None,
    typer.Option("--oracle-profile", metavar="NAME", help="Have the daemon run this profile first, as the oracle."),
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="What has to be known of this run.")]
To = Annotated[Path | None, typer.Option("--to", metavar="PLACE", help="A folder, or a .json file, for the record.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the record as JSON.")]
KeepGoing = Annotated[bool, typer.Option("--keep-going", help="Go on after a request that failed.")]
Salt = Annotated[
    str | None, typer.Option("--salt", metavar="TEXT", help="Makes other prompts: each begins with it, disguised.")
]
Output = Annotated[int | None, typer.Option("--output", metavar="TOKENS", help="The most tokens of an answer.")]


def long_prompt(
    ctx: typer.Context,
    tokens: Annotated[
        str | None,
        typer.Option("--tokens", metavar="N", help="Of the prompt, e.g. 64K; default: 133745, or what fits."),
    ] = None,
    output_tokens: Output = None,
    to_the_end: Annotated[
        bool, typer.Option("--to-the-end", help="Answers end only after --output tokens, whatever the model says.")
    ] = False,
    salt: Salt = None,
    url: Url = None,
    model: Model = None,
    api_key_file: KeyFile = None,
    oracle: Oracle = None,
    oracle_profile: OracleProfile = None,
    note: Note = "",
    to: To = None,
    as_json: AsJson = False,
    keep_going: KeepGoing = False,
) -> None:
    """A long prompt: cold and greedy, the same from the prefix cache, and a new one with sampling.

    Answers have up to 512 tokens.
    """
    chosen = {
        "tokens": None if tokens is None else _number(tokens, "tokens"),
        "output": _text(output_tokens),
        "to-the-end": "yes" if to_the_end else None,
        "salt": salt,
    }
    common = _Common(url, model, api_key_file, oracle, oracle_profile, note, to, as_json, keep_going)
    _measure(ctx, "long-prompt", chosen, common)


def context(
    ctx: typer.Context,
    depths: Annotated[
        str | None,
        typer.Option("--depths", metavar="N,N,...", help="Tokens; default: those of 2K,4K,8K,16K,24K,32K that fit."),
    ] = None,
    output_tokens: Output = None,
    salt: Salt = None,
    url: Url = None,
    model: Model = None,
    api_key_file: KeyFile = None,
    oracle: Oracle = None,
    oracle_profile: OracleProfile = None,
    note: Note = "",
    to: To = None,
    as_json: AsJson = False,
    keep_going: KeepGoing = False,
) -> None:
    """Decoding over exact depths of real content: prose, code and documents at each.

    Answers have 128 tokens.
    """
    chosen = {
        "depths": None if depths is None else ",".join(_number(word, "depths") for word in depths.split(",")),
        "output": _text(output_tokens),
        "salt": salt,
    }
    common = _Common(url, model, api_key_file, oracle, oracle_profile, note, to, as_json, keep_going)
    _measure(ctx, "context", chosen, common)


def ladder(
    ctx: typer.Context,
    rungs: Annotated[
        str | None, typer.Option("--rungs", metavar="N,N,...", help="Users at once; default: 1,2,4,8,16,32,64.")
    ] = None,
    passes: Annotated[int | None, typer.Option("--passes", metavar="N", help="The first is cold; default: 2.")] = None,
    output_tokens: Output = None,
    tokens: Annotated[str | None, typer.Option("--tokens", metavar="N", help="Of each prompt; default: 96.")] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", metavar="N", help="Of each user, one after the other; default: 1.")
    ] = None,
    salt: Salt = None,
    url: Url = None,
    model: Model = None,
    api_key_file: KeyFile = None,
    oracle: Oracle = None,
    oracle_profile: OracleProfile = None,
    note: Note = "",
    to: To = None,
    as_json: AsJson = False,
    keep_going: KeepGoing = False,
) -> None:
    """More and more users at once, in passes: the first cold, the later ones warm.

    A server without speculation is its own oracle: all prompts are asked one by one first. Answers have 128 tokens.
    """
    chosen = {
        "rungs": None if rungs is None else ",".join(_number(word, "rungs") for word in rungs.split(",")),
        "passes": _text(passes),
        "output": _text(output_tokens),
        "tokens": None if tokens is None else _number(tokens, "tokens"),
        "requests": _text(requests),
        "salt": salt,
    }
    common = _Common(url, model, api_key_file, oracle, oracle_profile, note, to, as_json, keep_going)
    _measure(ctx, "ladder", chosen, common)


def suite(
    ctx: typer.Context,
    output_tokens: Output = None,
    servers: Annotated[
        int | None, typer.Option("--servers", metavar="N", help="Fresh ones, with a daemon; default: 2.")
    ] = None,
    url: Url = None,
    model: Model = None,
    api_key_file: KeyFile = None,
    oracle: Oracle = None,
    oracle_profile: OracleProfile = None,
    note: Note = "",
    to: To = None,
    as_json: AsJson = False,
    keep_going: KeepGoing = False,
) -> None:
    """Twelve fixed questions of six classes over fresh servers, each with empty compile caches.

    The daemon restarts its backend for it. Answers have up to 512 tokens.
    """
    chosen = {"output": _text(output_tokens), "servers": _text(servers)}
    common = _Common(url, model, api_key_file, oracle, oracle_profile, note, to, as_json, keep_going)
    _measure(ctx, "suite", chosen, common)


@dataclass(frozen=True, slots=True)
class _Common:
    """The options that all of them have."""

    url: str | None
    model: str | None
    api_key_file: Path | None
    oracle: str | None
    oracle_profile: str | None
    note: str
    to: Path | None
    as_json: bool
    keep_going: bool


def _measure(ctx: typer.Context, name: str, chosen: Mapping[str, str | None], common: _Common) -> None:
    # Here, not above: `arcops bench context --help` needs none of it.
    from arcops.evidence.benches import Bench
    from arcops.evidence.measure import Asked, measure

    paths = Paths.of(instance_of(ctx))
    given = {option: word for option, word in chosen.items() if word is not None}
    asked = Asked(
        bench=Bench(name, given, common.keep_going),
        place=common.to or paths.records,
        command=("arcops", *sys.argv[1:]),
        url=common.url,
        model=common.model,
        api_key_file=common.api_key_file,
        oracle=common.oracle,
        oracle_profile=common.oracle_profile,
        note=common.note,
    )
    stored = asyncio.run(measure(asked, paths, _tell))
    _show(stored, _oracles(common.oracle, stored, paths.records), common.as_json)


def _tell(words: str) -> None:
    output.note(clean(words))


def _show(stored: "Stored", oracles: Path, as_json: bool) -> None:
    from arcops.core.evidence.judge import judge, spoiled
    from arcops.evidence.oracle import followed

    checked = followed(stored, oracles)
    if as_json:
        from arcops.cli.bench_json import shown

        output.json_data(shown(stored, checked))
    else:
        from arcops.cli.bench_show import width
        from arcops.cli.bench_words import lines_of

        output.data("\n".join(lines_of(stored, width(), checked)))
    output.note(f"record: {stored.path}")
    bad = spoiled(judge(stored.record))
    if bad:
        output.note(clean(f"measured, and spoiled: {bad[0].words}"))
        output.leave(ExitCode.FAILED)


def _oracles(oracle: str | None, stored: "Stored", records: Path) -> Path:
    """The folder that the oracle's record is in."""
    if oracle is None:
        return stored.path.parent
    return Path(oracle).parent if "/" in oracle or os.path.isfile(oracle) else records


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _number(word: str, option: str) -> str:
    """`8192` or `8K` as digits. Raises ArcopsError (usage)."""
    text = word.strip().upper()
    digits, factor = (text[:-1], _K) if text.endswith("K") else (text, 1)
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        problem = f"--{option}: {word!r} is no number"
        raise ArcopsError(problem, hint="e.g. 8192, or 8K", exit_code=ExitCode.USAGE)
    return str(int(digits) * factor)
