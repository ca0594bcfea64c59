"""The environment of a record that names it by its digest alone."""

from pathlib import Path

import msgspec

from arcops.core.errors import ArcopsError
from arcops.evidence.record import Record
from arcops.evidence.standing import kept


def with_environment(record: Record, folder: Path) -> Record:
    """With the environment that it was measured in, where that is kept in the folder; else as it is."""
    digest = None if record.setting is None else record.setting.configuration.environment_digest
    if record.environment is not None or digest is None:
        return record
    try:
        return msgspec.structs.replace(record, environment=kept.read(folder, digest))
    except ArcopsError:
        return record
