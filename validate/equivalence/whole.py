"""The arms of one set, recorded one after the other or side by side, and compared: what ``nox -s equivalence`` does.

Each arm is recorded by ``python -m validate record`` in a process of its own, in one folder for all of them; what vLLM says on
standard error goes to ``<arm>.log`` there. A run that is interrupted is resumed from that folder.
"""

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rich.console import Console

from validate.equivalence import detection, side_by_side
from validate.equivalence.arm import NAMES, ArmSet, Name
from validate.equivalence.compare import comparability, session
from validate.errors import InputError
from validate.processes import python
from validate.records import arm_folder, folder, seal, writer
from validate.records.arm import ArmManifest
from validate.records.model import Record
from validate.verdict import Verdict

Urls = Mapping[Name, tuple[str, ...]]
GOLDEN = Path("golden") / "transcripts"  # a folder for each arm set, by its name
BEGUN = "begun.json"
COMMAND = (sys.executable, "-m", "validate", "record")


class Begun(Record):
    """``begun.json``: what a run was begun with, and is resumed with. ``arm_set`` is as it was named.

    ``keyword`` is of scenes, and with ``faults`` of planted faults, which are then looked for in the specialized arm's place.
    """

    arm_set: str
    keyword: str | None = None
    golden: bool = False
    faults: bool = False


@dataclass(frozen=True)
class Whole:
    """One run. ``there``: all arms' folder; ``golden``: that of the default arms, where they are not recorded.

    ``urls``: the servers of each arm, where it has any; then the arms with servers are recorded, one after the other. ``LAYER``
    is the command's name; a layer of its own compares and looks for faults in its own way.
    """

    LAYER: ClassVar[str] = "equivalence"

    begun: Begun
    arms: ArmSet
    there: Path
    golden: Path | None
    out: Console
    urls: Urls = field(default_factory=dict)

    def run(self) -> int:
        """Records what is not recorded yet, then compares. Exit code as of the verdict, 3 where an arm cannot be recorded."""
        with writer.alone(self.there):
            return self._run()

    def _run(self) -> int:
        again = self._again()
        try:
            for names in self._order():
                self._record(names)
            if self.begun.faults:
                return detection.detect(self.faults(), self.out)
        except KeyboardInterrupt:
            self.out.print(f"interrupted; what is recorded is kept, go on with: {again}", markup=False, soft_wrap=True)
            raise
        except InputError as error:
            raise InputError(f"{error}; go on with: {again}") from error
        needed: list[Name] = [*self.arms.defaults, "specialized"] if self.golden is None else ["specialized"]
        if lacking := [name for name in needed if not self._ended(name)]:
            again = self._again(lacking)
            self.out.print(f"{', '.join(lacking)} not recorded yet; go on with: {again}", markup=False, soft_wrap=True)
            return Verdict.INVALID.exit_code
        return self.compare((self._of("default"), self._of("default-again"), self._of("specialized")))

    def _again(self, lacking: Sequence[Name] = ()) -> str:
        """The command that goes on, with the servers that this one had and a place for those of the arms that it lacked."""
        command = [python(), "-m", "validate", self.LAYER, self.begun.arm_set, "--resume", str(self.there)]
        if any(self.urls.values()):
            sides: tuple[Name, ...] = ("default", "specialized")
            for name in sides:
                wanted = ("URL",) if name in lacking else ()
                command += [word for url in self.urls.get(name) or wanted for word in (f"--{name}-url", url)]
        return shlex.join(command)

    def compare(self, folders: tuple[Path, Path, Path]) -> int:
        """Of the three arms' records: the exit code."""
        return session.run(folders, self.there, self.out, float32=self._float32(), golden=self.golden is not None)

    def faults(self) -> detection.Asked:
        """What planted faults are looked for with."""
        of = self._of("default"), self._of("default-again"), self.there
        return detection.Asked(self.begun.arm_set, self.arms, *of, self._float32(), self.begun.keyword)

    def _order(self) -> tuple[tuple[Name, ...], ...]:
        """The arms that are recorded; those that are together run side by side."""
        if any(self.urls.values()):
            return tuple((name,) for name in NAMES if self.urls.get(name))
        if self.golden is not None:
            return (("specialized",),)
        others = self.arms.defaults[1:] if self.begun.faults else (*self.arms.defaults[1:], "specialized")
        # Engines on GPUs have all of them, so that they wait for each other.
        return (("default",), others) if self.arms.stand_in else (("default",), *((name,) for name in others))

    def _float32(self) -> Path | None:
        return self._of("float32") if "float32" in self.arms.defaults else None

    def _of(self, name: Name) -> Path:
        found = _recorded(name, self.golden if self.golden and name != "specialized" else self.there)
        assert found is not None
        return found

    def _record(self, names: tuple[Name, ...]) -> None:
        asked: dict[str, list[str]] = {name: command for name in names if (command := self._command(name))}
        side_by_side.run(asked, self.there, self.arms.environment, self._ended, self.out)

    def _ended(self, name: str) -> bool:
        return any(arm_folder.ended(there) for there in _all(name, self.there))

    def _command(self, name: Name) -> list[str] | None:
        """What records the rest of an arm; None if nothing is left."""
        command = [*COMMAND, self.begun.arm_set, "--arm", name]
        there = _recorded(name, self.there)
        if there is not None:
            if arm_folder.ended(there):
                return None
            command += ["--resume", str(there)]
        else:
            command += ["--output", str(self.there)]
        command += [word for url in self.urls.get(name, ()) for word in ("--url", url)]
        keyword = detection.keyword(self.arms) if self.begun.faults else self.begun.keyword
        if keyword is not None:
            command += ["-k", keyword]
        return command if name == "default" else [*command, "--force-from", str(self._of("default"))]


def begin(output: Path, begun: Begun, arms: ArmSet, out: Console, of: type[Whole] = Whole, urls: Urls | None = None) -> Whole:
    """A new run. InputError if golden records are wanted and there are none of this arm set, or faults and it shows none."""
    if begun.golden and begun.faults:
        raise InputError("--golden cannot be given with --faults: faults are looked for beside default arms of this run")
    if begun.golden and begun.keyword is not None:
        raise InputError(f"-k cannot be given with --golden: all requests of {GOLDEN} are compared")
    if begun.golden and urls and urls.get("default"):
        raise InputError(f"--default-url cannot be given with --golden: the default arms are those of {GOLDEN}")
    if begun.faults:
        detection.chosen(arms, begun.keyword)
    kept = _golden(arms) if begun.golden else None
    there = folder.create(output, f"{arms.name}-{'faults' if begun.faults else of.LAYER}")
    folder.write(there, BEGUN, begun.model_dump_json(indent=2) + "\n")
    return of(begun, arms, there, kept, out, urls or {})


def resume(there: Path, wanted: Begun, arms: ArmSet, out: Console, of: type[Whole] = Whole, urls: Urls | None = None) -> Whole:
    """A run that was interrupted. InputError if the folder is none of this arm set, or was begun otherwise."""
    if not (there / BEGUN).is_file():
        raise InputError(f"cannot resume {there}: it holds no run of {of.LAYER}")
    begun = folder.parse(Begun, folder.text(there / BEGUN), f"{there / BEGUN}")
    if begun.arm_set != wanted.arm_set:
        raise InputError(f"cannot resume {there} with the arms of {wanted.arm_set}: it was begun with {begun.arm_set}")
    for option, asked, had in (("--golden", wanted.golden, begun.golden), ("--faults", wanted.faults, begun.faults)):
        if asked and not had:
            raise InputError(f"cannot resume {there} with {option}: it was begun without")
    return of(begun, arms, there, _golden(arms) if begun.golden else None, out, urls or {})


def bless(run: Path, out: Console) -> int:
    """Makes the default arms of a run the golden ones, and says what that changes. InputError if they are not complete.

    All are replaced or none: a folder with all takes the place of the old one.
    """
    names: tuple[Name, ...] = ("default", "default-again", "float32") if _all("float32", run) else ("default", "default-again")
    new = {name: arm_folder.read(_only(run, name)) for name in names}
    for name, recorded in new.items():
        if recorded.manifest.end is None:
            raise InputError(f"{recorded.folder}: the recording of {name} has no end; resume it")
        answered = sum(one.error is None for one in recorded.transcripts)
        if answered != recorded.manifest.planned:
            raise InputError(
                f"{recorded.folder}: {answered} of {recorded.manifest.planned} requests are recorded; record {name} anew"
            )
    default, *others = (one.manifest for one in new.values())
    for other in others:
        for line in comparability.differences(default, other, comparability.IN_FLOAT32 if other.name == "float32" else ()):
            raise InputError(f"{run}: its default arms are of different engines: {line}")
    kept = GOLDEN / Path(default.arm_set).stem
    changes = {
        name: _changed(arm_folder.read(kept / name), recorded)
        if (kept / name).is_dir()
        else f"new, {len(recorded.transcripts)} requests"
        for name, recorded in new.items()
    }
    _replace(kept, list(new.values()))
    for name, change in changes.items():
        out.print(f"{name}: {change}", markup=False, soft_wrap=True)
    return 0


def _replace(golden: Path, arms: list[arm_folder.Arm]) -> None:
    part, old = golden.with_name(f"{golden.name}.part"), golden.with_name(f"{golden.name}.old")
    try:
        shutil.rmtree(part, ignore_errors=True)
        for one in arms:
            kept = part / one.manifest.name
            kept.mkdir(parents=True)
            arm_folder.write_manifest(kept, one.manifest)
            arm_folder.keep(kept, one.transcripts)
            if one.steps is not None:
                arm_folder.write_steps(kept, one.steps)
            seal.seal(kept)
        shutil.rmtree(old, ignore_errors=True)
        if golden.is_dir():
            golden.rename(old)
        part.rename(golden)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise folder.unwritable(golden, error) from error


def _recorded(name: str, parent: Path) -> Path | None:
    """The folder in which an arm is recorded, if it is."""
    return next(iter(_all(name, parent)), None)


def _all(name: str, parent: Path) -> list[Path]:
    return [there for there in arm_folder.recordings(parent) if arm_folder.manifest(there).name == name]


def _golden(arms: ArmSet) -> Path:
    """The folder of the set's golden arms. InputError where one lacks."""
    kept = GOLDEN / arms.name
    for name in arms.defaults:
        if _recorded(name, kept) is None:
            raise InputError(f"{kept} holds no arm {name}: run in the project's folder, after python -m validate bless RUN")
    return kept


def _only(run: Path, name: Name) -> Path:
    found = _all(name, run)
    if len(found) != 1:
        raise InputError(f"{run} holds {len(found)} recordings of the arm {name}, and one is wanted")
    return found[0]


def _changed(before: arm_folder.Arm, after: arm_folder.Arm) -> str:
    old, new = ({t.key: t for t in arm.transcripts} for arm in (before, after))
    both = old.keys() & new.keys()
    tokens = sum(old[key].tokens != new[key].tokens for key in both)
    moved = max((abs(a - b) for key in both for a, b in zip(old[key].logprobs, new[key].logprobs, strict=False)), default=0.0)
    fields = [f for f in ("engine", "model", "plan", "source") if getattr(before.manifest, f) != getattr(after.manifest, f)]
    versions = _versions(before.manifest, after.manifest)
    said = [f"{len(new.keys() - old.keys())} requests new, {len(old.keys() - new.keys())} gone"]
    said += [f"{tokens} of {len(both)} decode other tokens"]
    said += [f"largest difference of a logprob {moved:.3g}", f"other {', '.join(fields)}" if fields else "", versions]
    return "; ".join(part for part in said if part)


def _versions(before: ArmManifest, after: ArmManifest) -> str:
    names = sorted({*before.versions, *after.versions})
    apart = [(n, before.versions.get(n), after.versions.get(n)) for n in names if before.versions.get(n) != after.versions.get(n)]
    return ", ".join(f"{name} {old} -> {new}" for name, old, new in apart)
