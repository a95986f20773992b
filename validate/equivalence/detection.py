"""The detection matrix of whole engines: which check finds which planted fault, and after how many decoded tokens.

Every fault is recorded in a process of its own, ``python -m validate record --plant``, on the few scenes that match
``SCENES`` (``COMPANY`` in an arm set of changing company), beside a sound control on the same scenes. The default arms' records
may hold more scenes: only these are looked at.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from validate import keywords
from validate.equivalence.arm import DTYPES, ArmSet
from validate.equivalence.compare import comparability, detected
from validate.equivalence.compare.arms import Arms
from validate.equivalence.scenes import Facts, Scene, build, digest, in_float32
from validate.errors import InputError
from validate.faults import engine
from validate.records import arm_folder, folder
from validate.records.arm_folder import Arm
from validate.records.detection import Detected, Detection
from validate.records.folder import parse, text
from validate.records.model import Record
from validate.records.provenance import cores
from validate.report.tables import markdown

SOUND = "sound"
# Padded and unpadded batches, more than one tile of rows, mixed steps, cached prefixes, preemption, every ending: 15 s of one
# core together, after 11 s in which the engine starts. Parts of names, so that forced ones are among them.
SCENES = "decode-5 or decode-8 or decode-17 or arrivals or prefix or preempted or stops or dictated"
COMPANY = "company"
SECONDS = "seconds.json"
WORDS = (
    "`tokens`: decoded tokens, in recording order, after which the first check objects (0: by the engine's count of steps "
    "alone); `also by`: the other checks. `common practice`: after how many the comparison objects that asks no more than "
    "that the chosen token be among the other arm's five best; empty where it finds nothing."
)


class Took(Record):
    """Seconds that the processes of a record took, added up over resumptions."""

    seconds: float = 0.0


@dataclass(frozen=True)
class Asked:
    """What is asked for. ``file`` is the arm set as it was named; ``there`` gets a folder a fault, and the matrix.

    ``judge`` says what finds a fault, ``words`` how its figures are read.
    """

    file: str
    arms: ArmSet
    default: Path
    again: Path
    there: Path
    float32: Path | None = None
    keyword: str | None = None
    judge: Callable[[Arms], detected.Detection] = detected.found
    words: str = WORDS


def detect(asked: Asked, out: Console) -> int:
    """Records what is not recorded yet, compares, writes ``detection.json`` and ``detection.md``.

    Exit code 1 if a fault is missed or the sound control is found.
    """
    faults, elsewhere = chosen(asked.arms, asked.keyword)
    default, again, *float32 = (arm_folder.read(path) for path in (asked.default, asked.again, asked.float32) if path)
    scenes = selected(asked.arms, default)
    beside = [reduced(arm, scenes) for arm in (default, again)]
    beside += [reduced(arm, in_float32(scenes)) for arm in float32]
    there = asked.there
    out.print(f"recording {len(faults)} faults and the sound control, {len(scenes)} scenes each, in {there}", soft_wrap=True)
    _record_all(asked, [SOUND, *(fault.name for fault in faults)], out)
    rows = []
    for name in (SOUND, *(fault.name for fault in faults)):
        rows.append(_judged(name, beside, there / name, asked.judge))
        out.print(f"{name}: {rows[-1].first or 'not found'}", soft_wrap=True)
    matrix = Detection(
        arms=asked.arms.name,
        default=str(asked.default),
        again=str(asked.again),
        scenes=tuple(scene.name for scene in scenes),
        float32=None if asked.float32 is None else str(asked.float32),
        source=default.manifest.source,
        commit=default.manifest.commit,
        sound=rows[0],
        faults=tuple(rows[1:]),
        elsewhere=tuple(f"{fault.name} ({fault.shown})" for fault in elsewhere),
    )
    folder.write(there, "detection.json", matrix.model_dump_json(indent=2) + "\n")
    folder.write(there, "detection.md", render(matrix, asked.words))
    out.print(table(matrix))
    out.print(f"{headline(matrix)}  {there}", markup=False, soft_wrap=True)
    return matrix.verdict.exit_code


def shown(arms: ArmSet) -> engine.Shown:
    """Which faults an arm set shows."""
    in_float32 = DTYPES[arms.engine.get("dtype", "auto")] == "float32"
    if arms.long is not None:
        return "long in float32" if in_float32 else "long"
    if any(scene.kind == "company" for scene in arms.scenes):
        return "company"
    if arms.engine.get("speculative_config"):
        return "drafts"
    return "float32" if in_float32 else "bfloat16"


def chosen(arms: ArmSet, keyword: str | None) -> tuple[list[engine.EngineFault], list[engine.EngineFault]]:
    """The faults that the arm set shows and whose names match, and those that others show. InputError if none is left."""
    if not arms.stand_in:
        raise InputError(f"{arms.name} is no arm set of the stand-in, in which faults are planted")
    known = engine.catalogue()
    own = {name: fault for name, fault in known.items() if fault.shown == shown(arms)}
    elsewhere = [fault for name, fault in known.items() if name not in own]
    if keyword is None:
        return list(own.values()), elsewhere
    found = [own[keyword]] if keyword in own else [fault for name, fault in own.items() if keywords.matches(keyword, name)]
    if not found:
        raise InputError(f"-k '{keyword}' selects none of the faults that {arms.name} shows: {', '.join(own)}")
    return found, []


def keyword(arms: ArmSet) -> str | None:
    """Of the scenes that faults are looked for in; None for all."""
    return {"company": COMPANY, "long": None, "long in float32": None}.get(shown(arms), SCENES)


def selected(arms: ArmSet, default: Arm) -> list[Scene]:
    """Those that faults are looked for in. InputError if the record is not of this arm set, or lacks one."""
    given = default.manifest.engine
    facts = Facts(given["block_size"], given["max_num_batched_tokens"], given["max_model_len"], given["max_num_seqs"])
    every = build(arms.scenes, facts, arms.prompt_source())
    if digest([scene for scene in every if scene.name in default.manifest.scenes]) != default.manifest.plan:
        raise InputError(f"{default.folder} does not record the scenes of {arms.name} as they are now: record it again")
    wanted = [scene for scene in every if (of := keyword(arms)) is None or keywords.matches(of, scene.name)]
    if lacking := [scene.name for scene in wanted if scene.name not in default.manifest.scenes]:
        raise InputError(f"{default.folder} has no scene {lacking[0]}, which planted faults are looked for in")
    return wanted


def reduced(arm: Arm, scenes: Sequence[Scene]) -> Arm:
    """An arm's record as if these scenes alone had been recorded."""
    names = [scene.name for scene in scenes]
    manifest = arm.manifest.model_copy(
        update={
            "scenes": tuple(names),
            "decode_only": tuple(scene.name for scene in scenes if scene.decode_only),
            "plan": digest(list(scenes)),
            "planned": sum(len(scene.requests) for scene in scenes),
        }
    )
    steps = arm.steps and arm.steps.model_copy(update={"by_scene": {k: v for k, v in arm.steps.by_scene.items() if k in names}})
    return replace(arm, manifest=manifest, steps=steps, transcripts=tuple(t for t in arm.transcripts if t.scene in names))


def _record_all(asked: Asked, names: list[str], out: Console) -> None:
    """A process a core. InputError, after all have ended, if one recorded nothing."""
    there = asked.there
    left = [name for name in names if not _complete(there / name)]
    if len(left) < len(names):
        out.print(f"{len(names) - len(left)} are recorded already")
    running: list[subprocess.Popen[str]] = []
    failures = []
    pool = ThreadPoolExecutor(cores())
    try:
        made = {pool.submit(_record, asked, there / name, name, running): name for name in left}
        for done, future in enumerate(as_completed(made), 1):
            failures += [f"{made[future]}: {said}"] if (said := future.result()) else []
            out.print(f"{done} of {len(left)}: {made[future]}, {_took(there / made[future]):.0f} s", soft_wrap=True)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            if process.poll() is None:
                process.terminate()
        raise
    pool.shutdown()
    if failures:
        raise InputError(f"{failures[0]} ({len(failures)} of {len(left)} were not recorded)")


def _record(asked: Asked, there: Path, name: str, running: list[subprocess.Popen[str]]) -> str | None:
    """What one process said, if it did not record to the end."""
    command = [sys.executable, "-m", "validate", "record", asked.file, "--arm", "specialized", "--output", str(there)]
    command += ["-k", of] if (of := keyword(asked.arms)) else []
    command += ["--force-from", str(asked.default)] if asked.arms.forced else []
    command += ["--plant", name] if name != SOUND else []
    begun = _record_of(there)
    command += ["--resume", str(begun)] if begun else []
    before, start = _took(there), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    running.append(process)
    said, _ = process.communicate()
    if _record_of(there):
        folder.write(there, SECONDS, Took(seconds=before + time.monotonic() - start).model_dump_json() + "\n")
    if _complete(there):
        return None
    return next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")


def _record_of(there: Path) -> Path | None:
    return next(iter(arm_folder.recordings(there)), None)


def _complete(there: Path) -> bool:
    found = _record_of(there)
    return found is not None and arm_folder.ended(found)


def _took(there: Path) -> float:
    return parse(Took, text(there / SECONDS), str(there / SECONDS)).seconds if (there / SECONDS).exists() else 0.0


def _judged(name: str, beside: Sequence[Arm], there: Path, judge: Callable[[Arms], detected.Detection]) -> Detected:
    """``beside``: the default arm, the A/A arm and, where there is one, the float32 arm."""
    found = _record_of(there)
    assert found is not None
    faulty = arm_folder.read(found)
    default, again, *float32 = beside
    arms = Arms(default, again, faulty, *float32[:1])
    engines = comparability.same_engine(arms)
    if engines.findings:
        raise InputError(f"{found} cannot be compared: {engines.findings[0].text}")
    detection = judge(arms)
    return Detected(
        name=name,
        stands_for="" if name == SOUND else engine.find(name).stands_for,
        tokens=detection.tokens,
        first=detection.first,
        common_practice=detection.common_practice,
        decoded=sum(len(one.tokens) for one in faulty.transcripts),
        seconds=round(_took(there), 1),
    )


HEAD = ("fault", "found by", "tokens", "also by", "common practice", "decoded", "seconds", "stands for")


def headline(matrix: Detection) -> str:
    """The verdict and what it rests on."""
    found, common = (sum(map(bool, which)) for which in ((f.found for f in matrix.faults), map(_common, matrix.faults)))
    control = f"found by {matrix.sound.first}" if matrix.sound.found else "not found"
    return (
        f"{matrix.verdict}: {found} of {len(matrix.faults)} planted faults found, {common} by the common comparison; "
        f"the sound control is {control}"
    )


def render(matrix: Detection, words: str = WORDS) -> str:
    """``detection.md``."""
    parts = [f"# {matrix.arms}: {headline(matrix)}", words, markdown(list(HEAD), _rows(matrix))]
    if matrix.elsewhere:
        parts.append(f"Shown by other arm sets: {', '.join(matrix.elsewhere)}.")
    beside = [folder for folder in (matrix.default, matrix.again, matrix.float32) if folder]
    parts.append(f"Scenes: {', '.join(matrix.scenes)}. Default arms: {', '.join(beside)}.")
    return "\n\n".join(parts) + "\n"


def table(matrix: Detection) -> Table:
    """For a console."""
    made = Table(*HEAD[:-1])
    for row, one in zip(_rows(matrix), (matrix.sound, *matrix.faults), strict=True):
        alarm = one.found if one is matrix.sound else not one.found
        made.add_row(*map(str, row[:-1]), style="red" if alarm else "")
    return made


def _rows(matrix: Detection) -> list[list[object]]:
    rows: list[list[object]] = []
    for one in (matrix.sound, *matrix.faults):
        others = ", ".join(f"{name} {at}" for name, at in one.tokens.items() if name != one.first)
        missed = "" if one is matrix.sound else "MISSED"
        row = [one.name, one.first or missed, one.tokens.get(one.first, ""), others, one.common_practice or ""]
        rows.append([*row, one.decoded, f"{one.seconds:.0f}", one.stands_for])
    return rows


def _common(one: Detected) -> bool:
    return one.common_practice is not None
