"""`arcops plan`: does a profile fit its cards, how long could a context be, and what does each allocation take."""

import shutil
import sys
from math import isnan
from typing import TYPE_CHECKING, Annotated, Final

import typer

from arcops import wire
from arcops.cli import output
from arcops.cli.connect import client_of
from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode

if TYPE_CHECKING:
    from arcops.core.launch import Launch
    from arcops.planning.told import Question

PIPED_WIDTH: Final = 80
NARROWEST: Final = 60
WIDEST: Final = 110
"""Columns."""
_LONGEST: Final = 1 << 32
"""Tokens of a context that anybody may ask about."""
_DOES_NOT: Final = "does not fit"

MaxModelLen = Annotated[
    int | None,
    typer.Option("--max-model-len", metavar="TOKENS", min=1, max=_LONGEST, help="What if the context were so long?"),
]
KvCacheDtype = Annotated[
    str | None, typer.Option("--kv-cache-dtype", metavar="TYPE", help="... the KV cache of this type (auto, fp8)?")
]
MambaCacheDtype = Annotated[
    str | None, typer.Option("--mamba-cache-dtype", metavar="TYPE", help="... the states of this type?")
]
SpeculativeTokens = Annotated[
    int | None,
    typer.Option("--num-speculative-tokens", metavar="N", min=0, max=999, help="... so many drafted; 0: none?"),
]
Spread = Annotated[
    int | None, typer.Option("--cards", metavar="N", min=1, max=64, help="... spread over so many cards?")
]
Accepted = Annotated[
    float | None,
    typer.Option("--accepted", metavar="TOKENS", min=1.0, max=1000.0, help="Mean accepted length, for the ceiling."),
]


def plan(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's name.")],
    max_model_len: MaxModelLen = None,
    kv_cache_dtype: KvCacheDtype = None,
    mamba_cache_dtype: MambaCacheDtype = None,
    num_speculative_tokens: SpeculativeTokens = None,
    cards: Spread = None,
    accepted: Accepted = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether a profile fits, what each allocation takes, and how long a context could be.

    Nothing is started: sizes come from the checkpoint's headers and vLLM's own arithmetic. Exit code 5 if it does not
    fit.
    """
    from arcops.cli.plan_words import lines_of
    from arcops.config.library import Config
    from arcops.planning.told import Question

    if accepted is not None and isnan(accepted):  # of which neither bound is true
        raise ArcopsError("--accepted is no number", exit_code=ExitCode.USAGE)
    instance = instance_of(ctx)
    launch = Config.load(instance=instance).launch(name)
    question = Question(
        context=max_model_len,
        cache_dtype=kv_cache_dtype,
        state_dtype=mamba_cache_dtype,
        tokens=num_speculative_tokens,
        cards=cards,
        accepted=accepted,
    )
    found = planned(ctx, launch, question)
    if as_json:
        output.data(wire.encode(found).decode())
    else:
        output.data("\n".join(lines_of(found, _width())))
    if found.fit == _DOES_NOT:
        output.leave(ExitCode.BLOCKED)


def planned(ctx: typer.Context, launch: "Launch", question: "Question") -> "wire.PlanInfo":
    """The plan, with what a daemon has measured of the profile where one answers. Raises ArcopsError."""
    from arcops.planning.measured import measured
    from arcops.planning.plan import PlanError
    from arcops.planning.told import AskedError, told

    paths = Paths.of(instance_of(ctx))
    # Without a daemon there is nobody to ask, and nothing to remark: the plan needs none.
    decode = measured(client_of(ctx), launch.profile) if paths.socket.exists() else None
    try:
        return told(launch, paths, question, decode)
    except AskedError as error:
        hint = "without these options there is a plan"
        raise ArcopsError(error.words, hint=hint, exit_code=ExitCode.USAGE) from error
    except PlanError as error:
        raise ArcopsError(error.words, hint=error.hint, exit_code=ExitCode.INVALID) from error


def _width() -> int:
    """Of the terminal, within what reads well; where there is none, a usual one's."""
    terminal = sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `>&-`
    columns = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if terminal else PIPED_WIDTH
    return max(NARROWEST, min(WIDEST, columns))
