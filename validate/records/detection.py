"""What a detection matrix of whole engines holds: ``detection.json``."""

from typing import Literal

from validate.records.model import SCHEMA_VERSION, Record
from validate.verdict import Verdict


class Detected(Record):
    """A specialized arm with a planted fault, or the sound one.

    ``tokens``: by check, the decoded tokens after which it objects; ``first`` needs the fewest, "" where none does.
    ``common_practice``: the same of "the chosen token is among the other arm's five best", None where that finds nothing.
    ``decoded``: tokens of the whole record, ``seconds``: of its process.
    """

    name: str
    stands_for: str
    tokens: dict[str, int]
    first: str
    common_practice: int | None
    decoded: int
    seconds: float

    @property
    def found(self) -> bool:
        """Whether any check objects."""
        return bool(self.tokens)


class Detection(Record):
    """All faults of an arm set, and the sound control.

    ``default``, ``again`` and ``float32`` are folders of arms; ``elsewhere``: faults that other arm sets show.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    layer: Literal["detection"] = "detection"
    arms: str
    default: str
    again: str
    float32: str | None = None
    scenes: tuple[str, ...]
    source: str
    commit: str | None
    sound: Detected
    faults: tuple[Detected, ...]
    elsewhere: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """FAIL where a fault is missed or the sound control is found."""
        return Verdict.PASS if all(fault.found for fault in self.faults) and not self.sound.found else Verdict.FAIL
