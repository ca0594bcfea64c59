"""A daemon whose machine has the environment that a test wants: see tests/evidence/standing/surveyed.py.

`python -m tests.daemon.surveyed FOLDER`
"""

import asyncio
import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.daemon import wiring
from arcops.daemon.environments import Environments, Pace
from arcops.daemon.main import configure_logging, serve
from tests.daemon.rig import Rig
from tests.evidence.standing.surveyed import Survey

SOON = replace(Pace(), after=0.1, look=0.1, turn=0.1)


@dataclass(slots=True)
class SurveyedRig(Rig):
    """A rig with a survey."""

    @property
    def survey(self) -> Survey:
        return Survey.there(self.root / "survey")

    def daemon_command(self) -> list[str]:
        return [sys.executable, "-m", "tests.daemon.surveyed", str(self.survey.folder)]


def main(folder: Path) -> None:
    configure_logging()
    wiring.Environments = partial(Environments, pace=SOON, reader=Survey.there(folder).command)
    try:
        asyncio.run(serve(Paths.of(os.environ["ARCOPS_INSTANCE"])))
    except ArcopsError as error:
        sys.stderr.write(f"arcopsd: {error}\n")
        raise SystemExit(int(error.exit_code)) from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
