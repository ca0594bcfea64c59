"""Does a launch fit: reads its checkpoints, and holds what it wants against the room that its cards have."""

from arcops.planning.plan import PlanError, Subject, demand_for, device_of, plan_for, subject_of
from arcops.planning.remembered import recall, runtime_of
from arcops.planning.room import Place, place_of
from arcops.planning.speed import ceiling_for
from arcops.planning.subjects import Subjects

__all__ = [
    "Place",
    "PlanError",
    "Subject",
    "Subjects",
    "ceiling_for",
    "demand_for",
    "device_of",
    "place_of",
    "plan_for",
    "recall",
    "runtime_of",
    "subject_of",
]
