"""The three arms, and the same request in each."""

from collections.abc import Iterator
from dataclasses import dataclass

from validate.records.arm import Transcript
from validate.records.arm_folder import Arm


@dataclass(frozen=True)
class Pair:
    """One request in all three arms."""

    default: Transcript
    again: Transcript
    specialized: Transcript


@dataclass(frozen=True)
class Arms:
    """The default path, the default path restarted and batched otherwise (the A/A arm), the specialized path."""

    default: Arm
    again: Arm
    specialized: Arm

    def __iter__(self) -> Iterator[Arm]:
        return iter((self.default, self.again, self.specialized))

    def pairs(self) -> list[Pair]:
        """The requests that all arms answered, in the specialized arm's recording order."""
        default, again = ({t.key: t for t in arm.transcripts if t.error is None} for arm in (self.default, self.again))
        return [
            Pair(default[t.key], again[t.key], t)
            for t in self.specialized.transcripts
            if t.error is None and t.key in default and t.key in again
        ]
