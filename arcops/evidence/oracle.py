"""Does a record's identity follow from its oracle's answers, where the oracle's record is still on the shelf?"""

from pathlib import Path

from arcops.core.errors import ArcopsError
from arcops.core.evidence.comparable import unfit_as_oracle
from arcops.core.evidence.identity import ITSELF, by_another, compare, same_questions, without_margins
from arcops.core.evidence.qualification import Verdict
from arcops.evidence import shelf
from arcops.evidence.shelf import Stored


def followed(stored: Stored, folder: Path) -> tuple[Verdict, str]:
    """Passed where it does, failed where it does not, unknown where the oracle is not at hand; in words.

    Raises ArcopsError for a folder that cannot be read. An identity with the run's own answers is checked when the
    record is read.
    """
    record = stored.record
    identity = record.identity
    if record.run is None or identity is None or identity.not_compared:
        return Verdict.SKIPPED, "there is no identity"
    if identity.oracle == ITSELF:
        return Verdict.PASSED, "the oracle's answers are in the record itself"
    oracle = _at_hand(identity.oracle, stored.path.parent) or _at_hand(identity.oracle, folder)
    if oracle is None or oracle.record.run is None:
        return Verdict.UNKNOWN, "the oracle's record is not at hand: this is as it was recorded"
    if record.qualification is None:
        reason = unfit_as_oracle(record, oracle.record)
        if reason:
            return Verdict.FAILED, f"it is no oracle of this run: {reason}"
        answers = by_another(oracle.record.run).answers
    else:
        # Held against what the profile itself answered when it qualified last: in another environment, and speculating.
        answers = same_questions(oracle.record.run, record.run)
    if without_margins(identity.stages) != compare(record.run, answers):
        return Verdict.FAILED, "what is recorded does not follow from the oracle's answers"
    return Verdict.PASSED, f"checked with {oracle.path.name}"


def _at_hand(digest: str, folder: Path) -> Stored | None:
    found = next((one for one in shelf.find(folder) if one.digest == digest), None)
    if found is None:
        return None
    try:
        return shelf.read(found.path)
    except ArcopsError:
        return None
