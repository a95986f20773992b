"""The four verdicts and their exit codes, the same in every layer."""

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """Outcome of a check, a case or a run."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 INVALID."""
        return _ORDER.index(self)


_ORDER = [Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID]
# A proven defect outranks a missing measurement, and that outranks an unresolved one.
_SEVERITY = [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.INVALID, Verdict.FAIL]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole: FAIL before INVALID before INCONCLUSIVE; INVALID when nothing ran."""
    return max(verdicts, key=_SEVERITY.index, default=Verdict.INVALID)
