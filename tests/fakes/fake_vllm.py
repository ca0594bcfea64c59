#!/usr/bin/env -S python3 -IS
"""A stand-in for the `vllm` command that behaves like it from the outside and misbehaves on demand.

Use it as `runtime.vllm` of a profile. Its pace and its faults are set by FAKE_VLLM_<NAME> in the environment and by
POST /fake/misbehave (see fake_vllm_lib/settings.py). That it behaves like the real one is what
tests/e2e/test_fake_is_like_real.py proves.
"""

import os
import sys

# -I leaves the folder of the script out of the path.
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from fake_vllm_lib.failures import FAILURES, STAGES
from fake_vllm_lib.flags import SERVE_USAGE, USAGE, VERSION, UsageError, parse
from fake_vllm_lib.server import Server
from fake_vllm_lib.settings import Settings, SettingsError


def main(arguments: list[str]) -> int:
    """Run the command line; a server ends the process by itself."""
    if arguments in (["--version"], ["-v"]):
        print(f"{VERSION}+cpu")
        return 0
    if arguments[:1] != ["serve"]:
        print(USAGE, file=sys.stderr)
        return 2
    if "--help" in arguments or "-h" in arguments:
        print(SERVE_USAGE)
        return 0
    try:
        flags = parse(arguments[1:])
        settings = _settings()
    except (UsageError, SettingsError) as error:
        print(error, file=sys.stderr)
        return 2
    return Server(flags, settings).run()


def _settings() -> Settings:
    settings = Settings.from_environment(os.environ)
    if settings.fail_with and settings.fail_with not in FAILURES:
        raise SettingsError(f"no failure {settings.fail_with!r}; there are {', '.join(FAILURES)}")
    for stage in (settings.stall_at, settings.busy_at, settings.fail_at):
        if stage and stage not in STAGES:
            raise SettingsError(f"no stage {stage!r}; there are {', '.join(STAGES)}")
    return settings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
