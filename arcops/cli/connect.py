"""How every command reaches its daemon."""

import typer

from arcops.cli.main import instance_of
from arcops.client import Client
from arcops.config.paths import Paths
from arcops.core.errors import NoDaemonError


class DaemonEndedError(NoDaemonError):
    """What was followed has come to its end in good order, because the daemon has."""

    def __init__(self) -> None:
        super().__init__("the daemon has ended", hint="start one with `arcopsd`, or `arcops service start`")


def client_of(ctx: typer.Context) -> Client:
    """A client of the instance that the command line names."""
    return Client(Paths.of(instance_of(ctx)).socket)
