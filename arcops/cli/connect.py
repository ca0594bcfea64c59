"""How every command reaches its daemon."""

import typer

from arcops.client import Client
from arcops.config.paths import Paths


def client_of(ctx: typer.Context) -> Client:
    """A client of the instance that the command line names."""
    root: object = ctx.find_root().obj
    return Client(Paths.of(str(root)).socket)
