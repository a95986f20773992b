"""What a run of the races on a GPU leaves: manifest.json, trials.jsonl, sanitized.jsonl, junit.xml and summary.md."""

from pathlib import Path
from typing import Literal

from validate.records import folder
from validate.records.model import Made, Record, VllmFiles
from validate.verdict import Verdict

TRIALS, SANITIZED = "trials.jsonl", "sanitized.jsonl"


class Asked(Record):
    """What a run was begun with."""

    vllm_src: str
    keyword: str | None = None
    repeats: int = 200
    sanitize: bool = False  # compute-sanitizer's sessions instead of trials


class Trial(Record):
    """One kernel under one adversary. ``fault`` is the control's; ``stall``: a delay placed in both."""

    kernel: str
    sizes: dict[str, int]
    adversary: str
    fault: str
    stall: str | None = None

    @property
    def case(self) -> str:
        """Its sizes: ``slots8-rows4``."""
        return "-".join(f"{name}{value}" for name, value in self.sizes.items())

    @property
    def name(self) -> str:
        """Unique in a plan: ``attn_res/slots8-rows4/words/first-word``."""
        return "/".join([self.kernel, self.case, self.adversary, *([self.stall] if self.stall else []), self.fault])


class Attempt(Record):
    """Repeats of a kernel. Of ``repeats`` that ended, those with other bits than undisturbed, or with a mailbox not armed again.

    ``first``: the first, or only, launch in its process was one of the unequal. ``hung``: the last did not end. ``error``: it
    ended in a CUDA error. ``detail``: the first thing that was wrong. ``late``: repeats whose launches were too late to overlap.
    ``shut``: why no kernel could be wrong under this adversary on this GPU.
    """

    repeats: int
    unequal: int = 0
    unarmed: int = 0
    first: bool = False
    hung: bool = False
    error: str | None = None
    detail: str | None = None
    late: int = 0
    shut: str | None = None

    @property
    def wrong(self) -> bool:
        """Whether anything was."""
        return self.unequal > 0 or self.unarmed > 0 or self.hung or self.error is not None


class Tried(Record):
    """What a trial found. ``undisturbed``: its control without the adversary: whether harder running would have shown the fault.

    ``lost``: why there is no result.
    """

    trial: Trial
    sound: Attempt | None = None
    control: Attempt | None = None
    undisturbed: Attempt | None = None
    seconds: float = 0.0
    lost: str | None = None


class Report(Record):
    """One finding of compute-sanitizer: what, in which kernel, how often.

    ``places``: of a race the two accesses' offsets in the kernel's code, of a barrier's error its own, and the instructions there
    where they are known.
    ``explained``: why it is none.
    """

    severity: Literal["error", "warning"]
    text: str
    kernel: str
    count: int
    places: tuple[str, ...] = ()
    explained: str | None = None


class Sanitized(Record):
    """One kernel under one tool of compute-sanitizer. ``fault``: of a copy that the tool must report; None of the sound kernel.

    ``lost``: why there is no result. ``said``: how its output begins, where there is a report or no result.
    """

    tool: str
    kernel: str
    sizes: dict[str, int]
    fault: str | None = None
    reports: tuple[Report, ...] = ()
    said: str = ""
    seconds: float = 0.0
    lost: str | None = None

    @property
    def name(self) -> str:
        """Unique in a run."""
        case = "-".join(f"{name}{value}" for name, value in self.sizes.items())
        return "/".join([self.tool, self.kernel, case, *([self.fault] if self.fault else [])])


class Manifest(Made):
    """Which run it was."""

    layer: Literal["races-gpu"] = "races-gpu"
    asked: Asked
    planned: int
    gpu: str
    vllm: VllmFiles
    verdict: Verdict | None = None


def read(there: Path) -> tuple[Manifest, list[Tried], list[Sanitized]]:
    """A run, finished or not; a last line that was cut off is left out. InputError if it is damaged otherwise."""
    manifest = folder.versioned(Manifest, there / folder.MANIFEST)
    if manifest.asked.sanitize:
        return manifest, [], folder.complete(Sanitized, there / SANITIZED)[0]
    return manifest, folder.complete(Tried, there / TRIALS)[0], []
