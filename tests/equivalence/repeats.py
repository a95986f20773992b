"""False alarms of the comparison, measured with the real engine: the default path in the specialized arm's place.

python -m tests.equivalence.repeats SET N [-k SCENES] [--arm specialized [--plant FAULT]] --output DIR

Records the arms ``default`` and ``default-again`` of a set as ``nox -s equivalence`` does, and then the default path N more times
on one engine, each time in batches of its own: the requests of each wave shuffled, none to four companions among them, all
submitted together or one by one, as a seed says. Each of the N is compared in the specialized arm's place, by all checks but the
two that ask for another path (same engine, attestation). All must PASS. Repeats that lie in DIR are not recorded again.
With ``--arm specialized`` the N are of the specialized path in such batches, with ``--plant`` of one with that fault, to see an
alarm; a DIR holds repeats of one kind.

Exit code 1 if any repeat does not PASS. Prints a line a repeat, then a table.

Measured on a CPU without AMX: no alarm in 20 repeats of ``cpu-bf16`` (commit 55cd4ed) and in 3 of ``cpu-fp32`` (d4e861b), every
greedy request identical. That says little of the tolerances: the noise, 0.0003 and 2e-6 nats, is far below the floor, for
PyTorch's bf16 products do not depend on the number of rows there. The sound specialized path shows 0.03 nats of 0.045 allowed;
15 repeats of it on the scenes in which faults are planted (detection.py) gave no alarm (ebb0762).
"""

import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import numpy as np
import typer
from rich.console import Console

from validate.equivalence import arm as arm_sets
from validate.equivalence import order, record
from validate.equivalence.arm import Name
from validate.equivalence.compare import comparability, drafts
from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.comparison import forced_check, measure, tokens_check
from validate.equivalence.compare.finding import Check
from validate.equivalence.compare.finite import finite
from validate.equivalence.compare.tokens import Divergence, counts, triage
from validate.equivalence.in_process import InProcess
from validate.equivalence.prompts import Prompts
from validate.equivalence.scenes import Request, Scene
from validate.errors import InputError
from validate.records import arm_folder
from validate.records.arm_folder import Arm
from validate.report.tables import markdown
from validate.verdict import Verdict, worst

COMPANIONS = 4  # at most, a wave
LENGTHS = (1, 90)  # of their prompts, tokens


@dataclass(frozen=True)
class Repeat(record.Asked):
    """A recording in batches of its own; ``seed`` is the repeat's number, ``command`` records what is left."""

    seed: int = 0
    command: str = ""

    def compose(self, scene: Scene, prompts: Prompts) -> order.Order:
        """The scene's requests unchanged, in another order and among other neighbours."""
        waves = sorted({request.wave for request in scene.requests})
        draw = random.Random(f"{self.seed}/{scene.name}/{waves[0]}")
        requests: list[Request] = []
        for wave in waves:
            members = [request for request in scene.requests if request.wave == wave]
            longest = max(request.tokens for request in members)  # so that a preemption that waits for a companion comes
            for n in range(draw.randint(0, COMPANIONS)):
                name = f"{order.COMPANION}-{wave}-{n}"
                prompt = prompts(f"{self.seed}/{scene.name}/{name}", draw.randint(*LENGTHS))
                members.append(Request(name, prompt, longest, wave=wave))
            draw.shuffle(members)
            requests += members
        return order.Order(requests, one_by_one=draw.random() < 0.5, preempt_after=scene.preempt_after)

    def go_on(self, there: Path) -> str:
        """See ``record.Asked``."""
        return self.command


@dataclass(frozen=True)
class Compared:
    """A repeat in the specialized arm's place. ``rms`` and ``largest``: differences of a logit, nats, as are ``again_…``."""

    name: str
    steps: int
    requests: int
    greedy: tuple[Divergence, ...]
    again: tuple[Divergence, ...]
    rms: float
    largest: float
    again_rms: float
    again_largest: float
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """Of all checks."""
        return worst(check.verdict for check in self.checks if check.verdict is not None)

    @property
    def row(self) -> list[object]:
        """For the table."""
        forced = [f"{self.rms:.3g}", f"{self.largest:.3g}"]
        return [self.name, self.steps, self.requests, f"{same(self.greedy)} of {len(self.greedy)}", *forced, self.verdict]

    @property
    def text(self) -> str:
        """A line, and one for each finding."""
        figures = f"greedy {counts(self.greedy)}; forced rms {self.rms:.3g}, largest {self.largest:.3g} nats"
        head = f"{self.name}: {self.verdict}, {self.requests} requests in {self.steps} steps; {figures}"
        return "\n".join([head, *(finding.line for check in self.checks for finding in check.findings)])


def compared(name: str, arms: Arms) -> Compared:
    """By the checks of ``compare`` but for ``same engine`` and ``attested``."""
    pairs = arms.pairs()
    measured = measure(arms, pairs)
    greedy = [pair for pair in measured.pairs if pair.default.kind == "greedy"]
    found = tuple(triage(pair.default, pair.specialized, measured.noise) for pair in greedy)
    again = tuple(triage(pair.default, pair.again, measured.noise) for pair in greedy)
    forced = measured.forced
    checks = (
        comparability.complete(arms),
        finite(arms),
        tokens_check(found, again),
        forced_check(measured.judgement, forced, measured.pairs, measured.yardstick.noise),
        drafts.acceptance(measured.pairs)[0],
    )
    counted = arms.specialized.steps
    steps = sum(step.count for scene in counted.by_scene.values() for step in scene) if counted else 0
    sizes = [np.abs(side[:, 0]) / forced.move for side in (forced.specialized, forced.noise)]
    # As the statistic ``size`` of all positions.
    rms = [float(np.sqrt((side[:, 0] ** 2).sum() / (forced.move**2).sum())) for side in (forced.specialized, forced.noise)]
    largest = [float(side.max(initial=0.0)) for side in sizes]
    return Compared(name, steps, len(pairs), found, again, rms[0], largest[0], rms[1], largest[1], checks)


def summary(rows: list[Compared]) -> str:
    """A table of all repeats, and what they come to."""
    head = ["repeat", "steps", "requests", "greedy identical", "forced rms, nats", "largest, nats", "verdict"]
    first = rows[0]
    again = ["default-again", "", first.requests, f"{same(first.again)} of {len(first.again)}"]
    again += [f"{first.again_rms:.3g}", f"{first.again_largest:.3g}", ""]
    lines = [markdown(head, [again, *(one.row for one in rows)]), "", "minimum, median and maximum of the repeats:"]
    figures = {
        "greedy identical, share": [same(one.greedy) / len(one.greedy) for one in rows if one.greedy],
        "forced rms, nats": [one.rms for one in rows],
        "largest, nats": [one.largest for one in rows],
    }
    lines += [f"- {name}: {min(v):.4g}, {median(v):.4g}, {max(v):.4g}" for name, v in figures.items() if v]
    return "\n".join([*lines, f"- alarms: {len(alarms(rows))} of {len(rows)}"])


def alarms(rows: list[Compared]) -> list[str]:
    """The repeats that do not pass."""
    return [one.name for one in rows if one.verdict is not Verdict.PASS]


def same(found: tuple[Divergence, ...]) -> int:
    """How many are identical."""
    return sum(one.triage == "identical" for one in found)


def recorded(there: Path) -> Path | None:
    """The record in a folder that holds at most one."""
    return next(iter(arm_folder.recordings(there)), None)


def complete(there: Path) -> bool:
    """Whether it holds a record that has an end."""
    found = recorded(there)
    return found is not None and arm_folder.ended(found)


def arm(there: Path, file: str, name: Name, keyword: str | None, source: Path | None) -> Path:
    """The record of a whole arm, made now if there is none. InputError if it cannot be made."""
    if not complete(there):
        begun = recorded(there)
        command = [sys.executable, "-m", "validate", "record", file, "--arm", name, "--output", str(there)]
        command += ["--resume", str(begun)] if begun else []
        command += ["-k", keyword] if keyword else []
        command += ["--force-from", str(source)] if source else []
        if subprocess.run(command, stdout=sys.stderr).returncode:
            raise InputError(f"the arm {name} was not recorded in {there}")
    found = recorded(there)
    assert found is not None
    return found


def repeats(asked: list[Repeat], log: Console) -> Iterator[Path]:
    """Their records, made now on one engine if there are none. InputError if one proves nothing."""
    engine: InProcess | None = None
    try:
        for one in asked:
            if not complete(one.output):
                engine = engine or InProcess(one.arms, one.name, one.plant)
                # The share of specialized steps is asked of the arm file's batches, not of these, which may be too large.
                if record.record(one, log, engine) and one.name == "default":
                    raise InputError(f"{one.output} proves nothing (see above)")
            found = recorded(one.output)
            assert found is not None
            yield found
    finally:
        if engine is not None:
            engine.close()


def of_one_engine(default: Arm, other: Arm, name: Name, plant: str | None) -> Arm:
    """``other``. InputError if it is of another engine, other scenes or other code, or records something else."""
    apart = comparability.differences(default.manifest, other.manifest)
    if (other.manifest.name, other.manifest.planted) != (name, plant):
        apart.append(f"it records {other.manifest.name}, planted {other.manifest.planted}")
    if apart:
        raise InputError(f"{other.folder} cannot be compared: {apart[0]}; give another --output")
    return other


def main(
    file: Annotated[str, typer.Argument(metavar="SET")],
    number: Annotated[int, typer.Argument(metavar="N", min=1)],
    output: Annotated[Path, typer.Option()],
    keyword: Annotated[str | None, typer.Option("-k")] = None,
    name: Annotated[Literal["default", "specialized"], typer.Option("--arm")] = "default",
    plant: Annotated[str | None, typer.Option()] = None,
) -> None:
    """See the module."""
    arms = arm_sets.load(file)
    record.plantable(plant, arms, name, ())
    default = arm(output / "default", file, "default", keyword, None)
    again = arm(output / "default-again", file, "default-again", keyword, default)
    asked = []
    for n in range(1, number + 1):
        there = output / f"repeat-{n:02}"
        command = " ".join(["python", "-m", "tests.equivalence.repeats", *sys.argv[1:]])
        asked.append(Repeat(file, arms, name, there, (), recorded(there), default, keyword, plant, n, command))
    first = arm_folder.read(default)
    second = of_one_engine(first, arm_folder.read(again), "default-again", None)
    rows = []
    for one, path in zip(asked, repeats(asked, Console(stderr=True)), strict=True):
        third = of_one_engine(first, arm_folder.read(path), name, plant)
        rows.append(compared(one.output.name, Arms(first, second, third)))
        print(rows[-1].text, flush=True)
    print(summary(rows))
    sys.exit(1 if alarms(rows) else 0)


if __name__ == "__main__":
    try:
        typer.run(main)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
