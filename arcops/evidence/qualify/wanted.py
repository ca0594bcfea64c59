"""What a person wants of a qualification, with what the profile itself says of it."""

from dataclasses import dataclass
from pathlib import Path

from arcops.core.launch import Launch
from arcops.evidence.qualify.ask import picture
from arcops.evidence.qualify.seen import Question, Wanted, wanted_of


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person wants."""

    profile: str
    place: Path
    """A folder, or a file that is not there yet."""
    command: tuple[str, ...] = ()
    url: str | None = None
    """A bare server in place of the daemon's."""
    model: str | None = None
    api_key_file: Path | None = None
    question: Question | None = None
    long_tokens: int | None = None
    headroom: int | None = None
    """Bytes."""
    soak: float | None = None
    """Seconds."""
    image: Path | None = None
    accepted: str = ""
    keep: bool = False
    note: str = ""


def wanted_by(asked: Asked, launch: Launch | None) -> Wanted:
    """Everything that will be asked; the picture is read. Raises ArcopsError (usage) where it cannot be."""
    own = None if launch is None or launch.qualification.image is None else Path(launch.qualification.image)
    path = asked.image or own
    return wanted_of(
        launch,
        question=asked.question,
        long_tokens=asked.long_tokens,
        headroom=asked.headroom,
        soak=asked.soak,
        image=None if path is None else picture(path),
        accepted=asked.accepted,
    )
