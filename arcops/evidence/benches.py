"""The four benchmarks by their names, with what was chosen as words: as a command line and as a record have it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from arcops.bench import context, ladder, long_prompt, suite
from arcops.bench.course import Fresh, Ready
from arcops.bench.drive import Progress
from arcops.bench.server import BenchServer
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.run import Run
from arcops.evidence.record import BENCHES


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark, and what was chosen."""

    name: str
    """One of BENCHES."""
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the options' names; what is not there is as ever."""
    keep_going: bool = False

    def like(self, oracle: Mapping[str, str]) -> "Bench":
        """The same with all that the oracle's run was asked with. Raises ArcopsError (usage) where more was chosen, and
        otherwise."""
        for name, word in self.words.items():
            if oracle.get(name, word) != word and name != "servers":
                raise ArcopsError(
                    f"the oracle was asked with --{name} {oracle[name] or '(none)'}, and not with {word}",
                    hint=f"leave out --{name}: what is compared is asked as the oracle was",
                    exit_code=ExitCode.USAGE,
                )
        return Bench(self.name, {**oracle, **self.words}, self.keep_going)


async def measure(
    bench: Bench,
    server: BenchServer,
    tell: Progress,
    *,
    ready: Ready,
    fresh: Fresh | None = None,
    own_oracle: bool = True,
) -> Run:
    """Run it. `fresh` is for the suite, `own_oracle` for the ladder: whether it makes its own where it can.

    Raises ArcopsError as the benchmarks do.
    """
    words, keep_going = bench.words, bench.keep_going
    match bench.name:
        case long_prompt.NAME:
            options = long_prompt.options_of(words, keep_going=keep_going)
            return await long_prompt.measure(server, options, tell, ready=ready)
        case context.NAME:
            return await context.measure(server, context.options_of(words, keep_going=keep_going), tell, ready=ready)
        case ladder.NAME:
            chosen = ladder.options_of(words, keep_going=keep_going, sequential=own_oracle)
            return await ladder.measure(server, chosen, tell, ready=ready)
        case suite.NAME:
            given = suite.options_of(words, keep_going=keep_going)
            return await suite.measure(server, given, tell, ready=ready, fresh=fresh)
        case _:
            raise ArcopsError(f"there is no benchmark {bench.name}", hint=f"one of {', '.join(BENCHES)}")
