"""The doctor: looks at everything that a deployment stands on, and says what is wrong and what helps.

`checks/` has one file a subject: a probe reads, a judge decides from what was read alone. `examine` runs them side by
side, each with a deadline. Verdicts are plain data (`finding`), for the terminal, for --json, for a screen.
"""

from arcops.doctor.finding import Finding, Fix, FixKind, Report, Verdict
from arcops.doctor.run import examine
from arcops.doctor.sight import Roots, Sight

__all__ = ["Finding", "Fix", "FixKind", "Report", "Roots", "Sight", "Verdict", "examine"]
