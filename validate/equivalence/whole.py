"""The arms of one set, recorded one after the other or side by side, and compared: what ``nox -s equivalence`` does.

Each arm is recorded by ``python -m validate record`` in a process of its own, in one folder for all of them; what vLLM says on
standard error goes to ``<arm>.log`` there. A run that is interrupted is resumed from that folder.
"""

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from validate.equivalence.arm import NAMES, ArmSet, Name
from validate.equivalence.compare import session
from validate.errors import InputError
from validate.records import arm_folder, folder
from validate.records.arm import ArmManifest

GOLDEN = Path("golden") / "transcripts"
LOGGED = 300  # characters of a log's last line that are shown


@dataclass(frozen=True)
class Whole:
    """One run. ``file``: the arm set as it was named; ``there``: all arms' folder; ``golden``: that of the default arms."""

    file: str
    arms: ArmSet
    there: Path
    keyword: str | None
    golden: Path | None
    out: Console

    def run(self) -> int:
        """Records what is not recorded yet, then compares. Exit code as of the verdict, 3 where an arm cannot be recorded."""
        again = f"python -m validate equivalence {self.file} --resume {self.there}"
        try:
            if self.golden is None:
                self._record(("default",))
                # Engines on GPUs have all of them, so that they wait for each other.
                both: tuple[Name, ...] = ("default-again", "specialized")
                for group in (both,) if self.arms.stand_in else ((both[0],), (both[1],)):
                    self._record(group)
            else:
                self._record(("specialized",))
        except KeyboardInterrupt:
            self.out.print(f"interrupted; go on with: {again}", markup=False)
            raise
        except InputError as error:
            raise InputError(f"{error}; go on with: {again}") from error
        of = {name: self._of(name) for name in NAMES}
        folders = of["default"], of["default-again"], of["specialized"]
        return session.run(folders, None, self.there, self.out, golden=self.golden is not None)

    def _of(self, name: Name) -> Path:
        found = self._recorded(name, self.golden if self.golden and name != "specialized" else self.there)
        assert found is not None
        return found

    def _recorded(self, name: Name, parent: Path) -> Path | None:
        """The folder in which an arm is recorded, if it is."""
        for manifest in sorted(parent.glob("*/manifest.json")):
            if arm_folder.manifest(manifest.parent).name == name:
                return manifest.parent
        return None

    def _record(self, names: tuple[Name, ...]) -> None:
        """Records the arms side by side. InputError with the last line that a recording said before it failed."""
        asked = [(name, command) for name in names if (command := self._command(name))]
        failed: list[str] = []
        threads = [threading.Thread(target=self._follow, args=(name, command, failed)) for name, command in asked]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:  # the terminal has told the recordings, too: they keep what they have
            for thread in threads:
                thread.join()
            raise
        if failed:
            raise InputError("; ".join(failed))

    def _command(self, name: Name) -> list[str] | None:
        """What records the rest of an arm; None if nothing is left."""
        command = [sys.executable, "-m", "validate", "record", self.file, "--arm", name]
        there = self._recorded(name, self.there)
        if there is not None:
            manifest = arm_folder.manifest(there)
            if manifest.end is not None:
                return None
            command += ["--resume", str(there)]
        else:
            command += ["--output", str(self.there)]
        if self.keyword is not None:
            command += ["-k", self.keyword]
        return command if name == "default" else [*command, "--force-from", str(self._of("default"))]

    def _follow(self, name: Name, command: list[str], failed: list[str]) -> None:
        log = self.there / f"{name}.log"
        environment = {**os.environ, **self.arms.environment}
        with log.open("ab") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
            assert process.stdout is not None
            for line in process.stdout:
                self.out.print(f"{name}: {line.rstrip()}", markup=False, highlight=False, soft_wrap=True)
        if process.wait():
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            reason = said[-1].removeprefix("error: ")[:LOGGED] if said else "it said nothing"
            failed.append(f"{name} was not recorded, exit code {process.returncode}: {reason} (all of it: {log})")


def begin(output: Path, file: str, arms: ArmSet, keyword: str | None, golden: bool, out: Console) -> Whole:
    """A new run. InputError if golden records are wanted and there are none."""
    if golden and not GOLDEN.is_dir():
        raise InputError(f"there is no {GOLDEN}: run in the project's folder, after python -m validate bless RUN")
    there = folder.create(output, f"{arms.name}-equivalence")
    folder.write(there, "keyword.txt", keyword or "")
    return Whole(file, arms, there, keyword, GOLDEN if golden else None, out)


def resume(there: Path, file: str, arms: ArmSet, golden: bool, out: Console) -> Whole:
    """A run that was interrupted. InputError if the folder is none of this arm set."""
    if not (there / "keyword.txt").is_file() or f"-{arms.name}-equivalence" not in there.name:
        raise InputError(f"cannot resume {there}: it holds no arms of {arms.name}")
    return Whole(file, arms, there, folder.text(there / "keyword.txt") or None, GOLDEN if golden else None, out)


def bless(run: Path, out: Console) -> int:
    """Makes the default arms of a run the golden ones, and says what that changes. InputError if they are not complete."""
    new = {name: _only(run, name) for name in ("default", "default-again")}
    for name, there in new.items():
        if arm_folder.manifest(there).end is None:
            raise InputError(f"{there}: the recording of {name} has no end; resume it")
    for name, there in new.items():
        arm = arm_folder.read(there)
        kept = GOLDEN / name
        if kept.is_dir():
            before = arm_folder.read(kept)
            out.print(f"{name}: {_changed(before, arm)}", markup=False, soft_wrap=True)
        else:
            out.print(f"{name}: new, {len(arm.transcripts)} requests", markup=False)
        kept.mkdir(parents=True, exist_ok=True)
        arm_folder.write_manifest(kept, arm.manifest)
        arm_folder.keep(kept, arm.transcripts)
        if arm.steps is not None:
            arm_folder.write_steps(kept, arm.steps)
    return 0


def _only(run: Path, name: str) -> Path:
    found = [path.parent for path in sorted(run.glob("*/manifest.json")) if arm_folder.manifest(path.parent).name == name]
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
