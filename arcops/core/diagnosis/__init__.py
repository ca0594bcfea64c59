"""Why a backend ended, or did not get ready: one cause, one line of summary, one line of advice."""

from arcops.core.diagnosis.judge import Diagnosis, Evidence, diagnose
from arcops.core.world import Cause

__all__ = ["Cause", "Diagnosis", "Evidence", "diagnose"]
