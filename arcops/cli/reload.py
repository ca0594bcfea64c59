"""`arcops reload`: read the configuration anew, for the next start."""

import typer

from arcops import words
from arcops.cli import output
from arcops.cli.connect import client_of


def reload(ctx: typer.Context) -> None:
    """Read site.yaml and the ordered profile anew, and say what differs; what runs goes on as it is."""
    with client_of(ctx) as client:
        reloaded = client.reload()
    for change in reloaded.changes:
        output.data(words.clean(change))
    output.note(words.clean(reloaded.summary))
