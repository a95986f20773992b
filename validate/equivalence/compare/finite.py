"""Every logprob is a number: a NaN or an infinity is a defect wherever it is."""

import math
from collections.abc import Iterator

from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.finding import Check, Finding, at, check
from validate.records.arm_folder import Arm
from validate.verdict import Verdict


def finite(arms: Arms) -> Check:
    """FAIL with the first position of each request that has one. Tokens that a mask excludes must not be among the best."""
    count = sum(len(t.logprobs) + sum(len(top.logprobs) for top in t.top) for arm in arms for t in arm.transcripts)
    return check("finite", f"{count} logprobs of three arms", (finding for arm in arms for finding in _of(arm)))


def _of(arm: Arm) -> Iterator[Finding]:
    for t in arm.transcripts:
        for position, (logprob, top) in enumerate(zip(t.logprobs, t.top, strict=False)):
            bad = [value for value in (logprob, *top.logprobs) if not math.isfinite(value)]
            if bad:
                yield at(t, Verdict.FAIL, f"{arm.manifest.name} has a logprob of {bad[0]}", position)
                break
