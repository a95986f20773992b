"""``python -m validate long-output``: the arms of a set of long outputs, recorded and compared."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.console import Console

from validate.equivalence import arm as arm_sets
from validate.equivalence import detection, whole
from validate.equivalence.arm import LongOutputs
from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.detected import Detection
from validate.errors import InputError
from validate.long_output.comparing import session
from validate.long_output.comparing.comparison import compare
from validate.verdict import Verdict

WORDS = (
    "`tokens`: tokens of its output up to the first at which the check objects, the fewest of all outputs (0: the check has no "
    "place); faults begin at 512 tokens of prompt and output, or with the 256th step. `also by`: the other checks, signs of "
    "degeneration by their names. `common practice`: the same of the comparison that asks no more than that the chosen token be "
    "among the other arm's five best."
)


@dataclass(frozen=True)
class LongOutput(whole.Whole):
    """One run of a set that has ``long``."""

    LAYER: ClassVar[str] = "long-output"

    @property
    def asked(self) -> LongOutputs:
        """What is asked of the set's scenes."""
        assert self.arms.long is not None
        return self.arms.long

    def compare(self, folders: tuple[Path, Path, Path]) -> int:
        """See ``Whole``."""
        return session.run(folders, self.there, self.out, self.asked, self._float32())

    def faults(self) -> detection.Asked:
        """What finds a fault: ``found``."""
        return replace(super().faults(), judge=partial(found, asked=self.asked), words=WORDS)


def found(arms: Arms, asked: LongOutputs) -> Detection:
    """By check that fails, the tokens of the output in which it does so first, up to there; 0 of a check without a place.

    ``signals`` are told apart by name.
    """
    compared = compare(arms, asked)
    tokens: dict[str, int] = {}
    for check in compared.checks:
        for finding in check.findings:
            if finding.verdict is Verdict.INCONCLUSIVE:
                continue
            name = finding.text.partition(":")[0] if check.name == "signals" else check.name
            at = 0 if finding.position is None else finding.position + 1
            tokens[name] = min(at, tokens.get(name, at))
    placed = {name: at for name, at in tokens.items() if at}
    first = min(placed, key=lambda name: placed[name], default=next(iter(tokens), ""))
    common = [one.position + 1 for one in compared.engines.common_practice]
    return Detection(first, tokens, min(common, default=None))


def run(
    name: str,
    keyword: str | None,
    faults: bool,
    output: Path,
    resume: Path | None,
    urls: tuple[tuple[str, ...], tuple[str, ...]],
    out: Console,
) -> int:
    """Records what is not recorded yet, then compares. Exit code as of the verdict. ``urls``: default's, specialized's.

    InputError if the set has no long outputs, or runs elsewhere and no server is named.
    """
    arms = arm_sets.load(name)
    if arms.long is None:
        raise InputError(f"{name} has no table long: it is a set for python -m validate equivalence")
    if not arms.stand_in and not any(urls):
        raise InputError(f"{name} is not the stand-in: name its servers with --default-url and --specialized-url")
    served: whole.Urls = {"default": urls[0], "default-again": urls[0], "specialized": urls[1]}
    begun = whole.Begun(arm_set=name, keyword=keyword, faults=faults)
    if resume is not None:
        if keyword is not None:
            raise InputError(f"-k cannot be given with --resume: {resume} keeps what it was begun with")
        return whole.resume(resume, begun, arms, out, LongOutput, served).run()
    if keyword is not None and not faults:
        raise InputError("-k selects planted faults: give it with --faults")
    return whole.begin(output, begun, arms, out, LongOutput, served).run()
