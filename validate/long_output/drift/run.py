"""A run from arguments to an exit code: seeds one after the other, a record that can be resumed."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console

from validate.errors import InputError
from validate.faults import drift as faults
from validate.long_output.drift import acceptance, detection, reports
from validate.long_output.drift.lockstep import Lockstep
from validate.long_output.drift.outcome import Arguments, Curve, DriftManifest, Outcome
from validate.long_output.drift.progress import Progress
from validate.long_output.drift.stream import Stream
from validate.long_output.drift.subject import Subject, specialized
from validate.long_output.drift.track import Track
from validate.long_output.drift.yardstick import OWN
from validate.paths.emulated.kda import SpecializedKda
from validate.processes import python
from validate.records import folder as records
from validate.records import provenance, writer
from validate.verdict import worst

SPECIALIZED = "emulated-specialized"
CURVE = 2.0**0.5  # of two steps of a curve
LOOKED_AT_EVERY = 8  # blocks after which a planted fault that is found is run no further


@dataclass
class Run:
    """A run under way. ``outcomes``: recorded so far."""

    folder: Path
    manifest: DriftManifest
    out: Console
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self) -> int:
        """All seeds that are not recorded yet, then the reports. Exit code as of the verdict."""
        torch.set_num_threads(1)  # operations of a few thousand elements: more threads only wait for each other
        with writer.alone(self.folder):
            began = time.monotonic() - self.manifest.seconds
            try:
                for seed in range(self.manifest.arguments.seeds):
                    if not any(outcome.seed == seed for outcome in self.outcomes):
                        self._seed(seed)
            except KeyboardInterrupt:
                self._close(began, ended=False)
                again = f"{python()} -m validate drift --resume {self.folder}"
                self.out.print(f"interrupted; what was measured is kept, go on with: {again}", markup=False, soft_wrap=True)
                raise
            return self._close(began, ended=True)

    def _seed(self, seed: int) -> None:
        arguments = self.manifest.arguments
        lockstep = Lockstep(stream := Stream(seed), _subjects(arguments, stream))
        progress = Progress(self.folder, self.out, seed, arguments.steps)
        progress.restore(lockstep)
        while lockstep.steps < arguments.steps and not self._all_found(lockstep):
            lockstep.block()
            progress.tick(lockstep)
        lines = [_outcome(seed, lockstep, name) for name in lockstep.tracks]
        self.outcomes += lines  # all subjects of a seed at once: a seed is recorded or not
        records.write_lines(self.folder / records.MEASUREMENTS, self.outcomes)
        progress.done()

    def _all_found(self, lockstep: Lockstep) -> bool:
        """Drops planted faults that are found; whether none is left to be looked for."""
        if self.manifest.arguments.mode != "faults" or lockstep.blocks % LOOKED_AT_EVERY or not lockstep.blocks:
            return False
        for subject in lockstep.subjects[2:]:
            if found := acceptance.first_out(lockstep.tracks[subject.name]):
                lockstep.drop(subject.name)
                self.out.print(f"{subject.name}: {found[0]} at step {found[1]:,}", markup=False)
        return len(lockstep.subjects) == 2

    def _close(self, began: float, *, ended: bool) -> int:
        verdict = detection.verdict(self.outcomes) if self._faults else worst(outcome.verdict for outcome in self.outcomes)
        update: dict[str, object] = {"seconds": round(time.monotonic() - began, 1)}
        if ended:
            update |= {"end": records.now(), "verdict": verdict, "exit_code": verdict.exit_code}
        self.manifest = self.manifest.model_copy(update=update)
        records.write_manifest(self.folder, self.manifest)
        records.write(self.folder, "junit.xml", reports.junit(self.outcomes))
        records.write(self.folder, "summary.md", reports.summary(self.manifest, self.outcomes))
        if self._faults:
            records.write(self.folder, "faults.md", detection.render(self.outcomes))
        if ended:
            reports.show(self.manifest, self.outcomes, self.out)
            self.out.print(f"{verdict}  {self.folder}", markup=False, soft_wrap=True)
        return verdict.exit_code

    @property
    def _faults(self) -> bool:
        return self.manifest.arguments.mode == "faults"


def start(arguments: Arguments, output: Path, out: Console) -> Run:
    """A new run with its folder. InputError for a fault that there is not, or that changes no step, before a folder is made."""
    wanted = [faults.find(arguments.planted)] if arguments.planted else []
    if arguments.mode == "faults":
        wanted += faults.catalogue().values()
    for fault in wanted:
        if fault.from_step > arguments.steps:
            late = f"{fault.name} changes nothing before step {fault.from_step:,}"
            raise InputError(f"{late}: --steps {arguments.steps} ends too early")
    manifest = DriftManifest(
        arguments=arguments,
        subjects=tuple(subject.name for subject in _subjects(arguments, Stream(0))),
        **provenance.made(),
    )
    folder = records.create(output, arguments.mode if arguments.mode == "drift" else "drift-faults")
    records.write(folder, records.MEASUREMENTS, "")
    records.write_manifest(folder, manifest)
    return Run(folder, manifest, out)


def resume(folder: Path, out: Console) -> Run:
    """An interrupted run. InputError if it is none of drift, is damaged, or other code began it."""
    manifest = records.versioned(DriftManifest, folder / records.MANIFEST)
    for what, then, now in (
        ("source", manifest.source, provenance.source()),
        ("versions", manifest.versions, provenance.versions()),
    ):
        if then != now:
            raise InputError(f"cannot resume {folder}: the {what} differ, {then} then and {now} now; start a new run")
    return Run(folder, manifest, out, _read(folder))


def _subjects(arguments: Arguments, stream: Stream) -> list[Subject]:
    """The specialized path, or the planted fault in its place; then every fault, where they are looked for."""
    planted = faults.find(arguments.planted).implementation if arguments.planted else SpecializedKda
    made = [specialized(SPECIALIZED, planted(), stream.inputs)]
    if arguments.mode == "faults":
        made += [specialized(f.name, f.implementation(), stream.inputs) for f in faults.catalogue().values()]
    return made


def _outcome(seed: int, lockstep: Lockstep, name: str) -> Outcome:
    track = lockstep.tracks[name]
    of = acceptance.heads(track, lockstep.memory)
    default = name == lockstep.subjects[0].name
    return Outcome(
        seed=seed,
        subject=name,
        steps=int(track.steps[-1]),
        heads=tuple(of),
        checks=tuple(
            acceptance.checks(track, of, int(lockstep.strays[OWN["default" if default else "specialized"]]), default=default)
        ),
        out=acceptance.first_out(track),
        curve=_curve(track),
    )


def _curve(track: Track) -> Curve:
    chosen, wanted = [], 1.0
    for place, step in enumerate(track.steps):
        if step >= wanted or place == len(track.steps) - 1:
            chosen.append(place)
            wanted = step * CURVE
    state, bound = track.column("state")[chosen], track.column("state_bound")[chosen]
    return Curve(
        steps=tuple(track.steps[chosen].tolist()),
        state=tuple(map(tuple, state.tolist())),
        bound=tuple(map(tuple, bound.tolist())),
    )


def _read(folder: Path) -> list[Outcome]:
    path = folder / records.MEASUREMENTS
    rows = records.text(path).splitlines()
    return [records.parse(Outcome, row, f"{path}, line {number}") for number, row in enumerate(rows, 1)]
