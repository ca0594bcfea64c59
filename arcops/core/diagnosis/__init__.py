"""Why a backend ended, or did not get ready: one cause, one line of summary, one line of advice."""

from arcops.core.diagnosis.causes import Cause
from arcops.core.diagnosis.judge import Diagnosis, Evidence, diagnose

__all__ = ["Cause", "Diagnosis", "Evidence", "diagnose"]
