"""The detection matrix: which check finds which planted fault."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from validate.faults import Fault
from validate.numerics.case import Case
from validate.numerics.judge import Judgement, judge
from validate.paths.emulated import Emulated
from validate.records.model import Line

CHECKS = ("complete", "ranks", "no_worse", "no_worse_row", "largest", "share", "rounding", "choice", "exact", "repeatable")


@dataclass
class Detection:
    """How many cases ran a fault, and how many each check failed on."""

    fault: Fault
    cases: int = 0
    failed: dict[str, int] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether any check failed on any case."""
        return bool(self.failed)


def add(detection: Detection, judgement: Judgement | Line) -> None:
    """Counts one case's judgement of the faulty subject, fresh or from a record."""
    if judgement.missing is not None:
        return
    detection.cases += 1
    for check in sorted({m.check for m in judgement.measurements if not m.passed}):
        detection.failed[check] = detection.failed.get(check, 0) + 1


def detect(faults: Iterable[Fault], cases: Iterable[Case]) -> list[Detection]:
    """Judges every fault on every case of its stage, beside the sound default path."""
    detections = [Detection(fault) for fault in faults]
    for case in cases:
        planted = {d.fault.name: d for d in detections if d.fault.stage == case.stage}
        if not planted:
            continue
        for judgement in judge(case, [Emulated("default"), *(d.fault.subject() for d in planted.values())]):
            if judgement.subject in planted:
                add(planted[judgement.subject], judgement)
    return detections
