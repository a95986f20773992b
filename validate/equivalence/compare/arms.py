"""The arms, and the same request in each."""

from collections.abc import Iterator
from dataclasses import dataclass

from validate.records.arm import Transcript
from validate.records.arm_folder import Arm


@dataclass(frozen=True)
class Pair:
    """One request in all arms.

    ``noise`` is what the specialized arm's differences are held against: the float32 arm's where there is one (None of what it
    was not asked), else the A/A arm's.
    """

    default: Transcript
    again: Transcript
    specialized: Transcript
    noise: Transcript | None


@dataclass(frozen=True)
class Arms:
    """The default path, the default path restarted and batched otherwise (the A/A arm), the specialized path.

    ``float32``: the default path without its dtype's rounding, on the default arm's tokens.
    """

    default: Arm
    again: Arm
    specialized: Arm
    float32: Arm | None = None

    def __iter__(self) -> Iterator[Arm]:
        return iter((self.default, self.again, self.specialized))

    def pairs(self) -> list[Pair]:
        """The requests that all three arms answered, in the specialized arm's recording order."""
        default, again, noise = map(_answered, (self.default, self.again, self.float32 or self.again))
        return [
            Pair(default[t.key], again[t.key], t, noise.get(t.key))
            for t in self.specialized.transcripts
            if t.error is None and t.key in default and t.key in again
        ]


def _answered(arm: Arm) -> dict[str, Transcript]:
    return {t.key: t for t in arm.transcripts if t.error is None}
