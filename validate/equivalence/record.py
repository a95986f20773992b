"""Records an arm: runs its scenes on one engine or on several servers, and keeps what ends as it ends."""

import contextlib
import os
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from validate import keywords
from validate.equivalence import attestation, order
from validate.equivalence.arm import BACKENDS, ArmSet, Name
from validate.equivalence.engine import CORRUPTED, PREEMPTIONS, Answer, Engine, Lost, metric, recorded
from validate.equivalence.identity import served
from validate.equivalence.in_process import InProcess
from validate.equivalence.prompts import Prompts
from validate.equivalence.scenes import Facts, Scene, build, digest, in_float32, with_tokens
from validate.equivalence.server import Server
from validate.errors import InputError
from validate.processes import python
from validate.records import arm_folder, folder, provenance, writer
from validate.records.arm import NANS, ArmManifest, Steps, Transcript
from validate.verdict import Verdict

ATTEMPTS = 3  # at a scene, with a server that comes back each time
SUPPOSED = 16  # tokens a cache block, which only the engine knows; names of scenes do not depend on it


@dataclass(frozen=True)
class Asked:
    """What a person asked for. ``file`` is the arm set as it was named, ``plant`` the fault to plant."""

    file: str
    arms: ArmSet
    name: Name
    output: Path = Path("runs")
    urls: tuple[str, ...] = ()
    resume: Path | None = None
    force_from: Path | None = None
    keyword: str | None = None
    plant: str | None = None

    def compose(self, scene: Scene, prompts: Prompts) -> order.Order:
        """The batches that a scene forms."""
        again = self.name == "default-again"
        played = order.again(scene, prompts) if again else scene
        return order.Order(played.requests, one_by_one=again, preempt_after=played.preempt_after)

    def go_on(self, there: Path) -> str:
        """The command that records what is left."""
        command = [python(), "-m", "validate", "record", self.file, "--arm", self.name]
        given = [("-k", self.keyword), ("--plant", self.plant), ("--force-from", self.force_from)]
        given += [*(("--url", url) for url in self.urls), ("--resume", there)]
        return shlex.join(command + [str(word) for option, value in given if value is not None for word in (option, value)])


@dataclass
class Recording:
    """A record in the making. ``compose``: ``Asked.compose``. ``lock`` guards all; several servers write to one record."""

    folder: Path
    compose: Callable[[Scene], order.Order]
    scenes: list[Scene]
    done: dict[str, Transcript]
    steps: Steps
    unproven: dict[str, str]
    show: Callable[[int], None]
    say: Callable[[str], None]
    lock: threading.Lock

    def left(self, scene: Scene) -> Scene | None:
        """What of a scene is still to run; None if it is complete."""
        requests = [r for r in scene.requests if f"{scene.name}/{r.name}" not in self.done]
        if not requests and (scene.name in self.steps.by_scene or not scene.composed):
            return None
        return scene if scene.composed else replace(scene, requests=tuple(requests))

    def run(self, scene: Scene, engine: Engine) -> None:
        """Runs what is left of a scene. Lost if the engine is; what had ended before is kept where requests stand alone."""
        if scene.composed:
            return self._run(scene, engine)
        for wave in sorted({request.wave for request in scene.requests}):
            self._run(replace(scene, requests=tuple(r for r in scene.requests if r.wave == wave)), engine)

    def _run(self, scene: Scene, engine: Engine) -> None:
        engine.fresh()
        before = engine.metrics()
        ended: list[Answer] = []

        def end(answer: Answer) -> None:
            if recorded(answer.request):
                ended.append(answer)
                transcript = answer.transcript(scene.name)
                with self.lock:
                    arm_folder.append(self.folder, [transcript])
                    self.done[transcript.key] = transcript
                self.show(len(self.done))

        try:
            engine.play(self.compose(scene), end)
            counted, after = attestation.counted(engine.steps()), engine.metrics()
        except BaseException:
            if scene.composed:
                self._drop(scene.name)
            raise
        if lacking := unproven(scene, ended, (metric(after, PREEMPTIONS) or 0) - (metric(before, PREEMPTIONS) or 0)):
            self._drop(scene.name)
            with self.lock:
                self.unproven[scene.name] = lacking
            return
        new, earlier = metric(after, CORRUPTED), metric(before, CORRUPTED) or 0.0
        with self.lock:
            self.steps = combined(self.steps, scene.name, counted, None if new is None else int(new - earlier))
            arm_folder.write_steps(self.folder, self.steps)

    def _drop(self, scene: str) -> None:
        with self.lock:
            self.done = {key: one for key, one in self.done.items() if one.scene != scene}
            arm_folder.keep(self.folder, self.done.values())


def record(asked: Asked, out: Console, running: Engine | None = None) -> int:
    """Records an arm, or what of it is left. Exit code 0, or 3 with a line for each thing that a comparison would refuse.

    ``running``: the arm's engine, where there is one already; it is left running.
    """
    os.environ.update(asked.arms.environment)  # OMP_NUM_THREADS, say: torch, whoever imports it first, reads it then
    if asked.name not in (*asked.arms.defaults, "specialized"):
        raise InputError(f"--arm {asked.name}: {asked.arms.name} is no set of a stand-in that rounds: it has no such arm")
    if asked.resume is None:
        return _record(asked, out, running)
    arm_folder.manifest(asked.resume)  # that there is one
    with writer.alone(asked.resume):
        return _record(asked, out, running)


def _record(asked: Asked, out: Console, running: Engine | None) -> int:
    earlier = arm_folder.read(asked.resume, mend=True) if asked.resume else None
    if earlier and earlier.manifest.name != asked.name:
        raise InputError(f"cannot resume {asked.resume} as {asked.name}: it records {earlier.manifest.name}")
    plantable(asked.plant, asked.arms, asked.name, asked.urls)
    source = forced_source(asked)
    servers = [Server(url, asked.arms) for url in asked.urls]
    engines: list[Engine] = [running] if running else [*servers] or [InProcess(asked.arms, asked.name, asked.plant)]
    try:
        facts = {engine.facts() for engine in engines}
        if len(facts) > 1:
            raise InputError("the servers differ in block size: start them with the same arguments")
        current = _recording(asked, facts.pop(), engines, earlier, out)
        with contextlib.nullcontext() if earlier else writer.alone(current.folder):
            return _recorded(asked, current, engines, source, out)
    finally:
        for engine in engines:
            if engine is not running:
                engine.close()


def plantable(plant: str | None, arms: ArmSet, name: Name, urls: Sequence[str]) -> None:
    """InputError where the fault that is asked for cannot be planted."""
    if plant is None:
        return
    from validate.faults import engine

    engine.find(plant)
    if name != "specialized":
        raise InputError(f"--plant {plant}: faults are planted in the specialized arm, not in {name}")
    if not arms.stand_in or urls:
        raise InputError(f"--plant {plant}: faults are planted in the stand-in, in process")


def supposed(arms: ArmSet) -> Facts:
    """What is known without an engine: enough for the names of scenes and the numbers of their requests."""
    block, given = arms.engine.get("block_size", SUPPOSED), arms.engine
    return Facts(block, given["max_num_batched_tokens"], given["max_model_len"], given["max_num_seqs"])


def chosen(arms: ArmSet, facts: Facts, keyword: str | None, name: Name = "default") -> list[Scene]:
    """The scenes of an arm whose names match, in their order."""
    scenes = build(arms.scenes, facts, arms.prompt_source())
    if keyword is None:
        return in_float32(scenes) if name == "float32" else scenes
    found = [scene for scene in scenes if keyword == scene.name or keywords.matches(keyword, scene.name)]
    if not found:
        raise InputError(f"-k '{keyword}' selects none of the scenes {', '.join(scene.name for scene in scenes)}")
    return in_float32(found) if name == "float32" else found


def forced_source(asked: Asked) -> dict[str, Transcript]:
    """The record of what was decoded freely, whose tokens are forced: what ``force_from`` holds, by scene and request.

    InputError, before an engine is started, where a scene that is selected needs it and there is none.
    """
    scenes = chosen(asked.arms, supposed(asked.arms), asked.keyword, asked.name)
    if asked.force_from is None:
        forced = [scene.name for scene in scenes if scene.of is not None]
        if forced and asked.name != "default":
            why = f"in the scene {forced[0]} the arm {asked.name} decodes what the default arm decoded"
            raise InputError(f"{why}: name its record with --force-from")
        return {}
    there = arm_folder.read(asked.force_from, mend=True)
    if there.manifest.name != "default":
        raise InputError(f"--force-from {asked.force_from}: it records {there.manifest.name}, and the default arm's is wanted")
    return {one.key: one for one in there.transcripts if one.kind != "forced"}


def unproven(scene: Scene, ended: Sequence[Answer], preemptions: float) -> str | None:
    """What a scene was to show and did not."""
    if scene.proves == "cached":
        cold = [answer.request.name for answer in ended if answer.request.wave > 0 and not answer.cached]
        if cold:
            lacking = f"no token of {cold[0]} came from the prefix cache; a server says so with --enable-prompt-tokens-details"
            return f"scene {scene.name}: {lacking}"
    if scene.proves == "preempted" and not preemptions and not any(answer.preemptions for answer in ended):
        return f"scene {scene.name}: no request was preempted"
    return None


def combined(steps: Steps, scene: str, counted: attestation.Counted, corrupted: int | None) -> Steps:
    """The account of steps with that of one more stretch of a scene."""
    before = steps.by_scene.get(scene, ())
    by_scene = steps.by_scene | {scene: attestation.added(before, counted.steps or ())}
    agree = counted.ranks_agree if steps.ranks_agree is None else steps.ranks_agree and counted.ranks_agree is not False
    total = steps.corrupted if corrupted is None else (steps.corrupted or 0) + corrupted
    return Steps(source=counted.source, by_scene=by_scene, corrupted=total, ranks_agree=agree)


def _recording(asked: Asked, facts: Facts, engines: Sequence[Engine], earlier: arm_folder.Arm | None, out: Console) -> Recording:
    arms, prompts = asked.arms, asked.arms.prompt_source()
    scenes = chosen(arms, facts, asked.keyword, asked.name)
    manifest = _manifest(asked, facts, scenes, engines)
    if earlier is None:
        there = folder.create(asked.output, f"{arms.name}-{asked.name}")
        arm_folder.write_manifest(there, manifest)
        return _begun(there, asked, prompts, scenes, (), None)
    for field in ("plan", "engine", "model", "decode_backend", "planted", "source", "environment", "versions", "serves"):
        old, new = getattr(earlier.manifest, field), getattr(manifest, field)
        if old != new:
            raise InputError(f"cannot resume {earlier.folder}: its {field} is {old}, and now it is {new}")
    if not asked.urls and earlier.manifest.machine.kind != manifest.machine.kind:
        raise InputError(
            f"cannot resume {earlier.folder} on another kind of machine: it was begun on {earlier.manifest.machine.kind}"
        )
    complete = earlier.steps.by_scene if earlier.steps else {}
    composed = {scene.name for scene in scenes if scene.composed}
    done = [one for one in earlier.transcripts if one.scene not in composed or one.scene in complete]
    arm_folder.keep(earlier.folder, done)
    out.print(f"resuming {earlier.folder}: {len(done)} of {manifest.planned} requests are recorded", soft_wrap=True)
    return _begun(earlier.folder, asked, prompts, scenes, done, earlier.steps)


def _begun(
    there: Path, asked: Asked, prompts: Prompts, scenes: list[Scene], done: Sequence[Transcript], steps: Steps | None
) -> Recording:
    known = steps or Steps(source="no scene has run", by_scene={})
    # Canaries have to run before and behind the long outputs in every arm.
    ordered = scenes[::-1] if asked.name == "default-again" and asked.arms.long is None else scenes
    by_key = {one.key: one for one in done}
    compose = partial(asked.compose, prompts=prompts)
    return Recording(there, compose, ordered, by_key, known, {}, lambda _: None, lambda _: None, threading.Lock())


def _recorded(asked: Asked, current: Recording, engines: Sequence[Engine], source: dict[str, Transcript], out: Console) -> int:
    again = asked.go_on(current.folder)
    out.print(f"recording {asked.name} of {asked.arms.name} in {current.folder}", soft_wrap=True)
    try:
        with _progress(current, out):
            _play_all(asked, current, engines, source)
    except KeyboardInterrupt:
        out.print(f"interrupted; {len(current.done)} requests are kept, go on with: {again}", markup=False, soft_wrap=True)
        raise
    except (Lost, InputError) as error:
        raise InputError(f"{error}; {len(current.done)} requests are kept, go on with: {again}") from error
    manifest = arm_folder.manifest(current.folder)
    arm_folder.write_manifest(current.folder, manifest.model_copy(update={"end": folder.now()}))
    counts_nans = manifest.environment.get(NANS, "0") != "0"
    found = list(current.unproven.values()) + attestation.objections(
        asked.name, asked.arms.minimum_specialized, current.scenes, current.steps, current.done.values(), counts_nans
    )
    for line in found:
        out.print(f"INVALID {line}", soft_wrap=True)
    specialized, total = attestation.share(current.steps, current.scenes)
    out.print(
        f"{len(current.done)} requests recorded; {specialized} of {total} decode steps of decode_only scenes ran specialized"
    )
    return Verdict.INVALID.exit_code if found else 0


def _play_all(asked: Asked, current: Recording, engines: Sequence[Engine], source: dict[str, Transcript]) -> None:
    """Greedy scenes before those that force their tokens; within each, servers take a scene each."""
    for forced in (False, True):
        scenes = [scene for scene in current.scenes if (scene.of is not None) == forced and current.left(scene)]
        if forced:
            decoded = source or current.done
            scenes = [_with_tokens(scene, decoded) for scene in scenes]
        waiting, failures = list(scenes), list[Exception]()
        threads = [
            threading.Thread(target=_serve, args=(current, engine, waiting, failures), daemon=True) for engine in engines[1:]
        ]
        for thread in threads:
            thread.start()
        _serve(current, engines[0], waiting, failures)
        for thread in threads:
            thread.join()
        unfinished = [scene for scene in scenes if current.left(scene) and scene.name not in current.unproven]
        if failures and (unfinished or not isinstance(failures[0], Lost)):
            raise failures[0]


def _serve(current: Recording, engine: Engine, waiting: list[Scene], failures: list[Exception]) -> None:
    """Runs scenes on one engine until none waits or it is lost for good; one that still runs others then takes its scene."""
    while not any(not isinstance(failure, Lost) for failure in failures):
        with current.lock:
            if not waiting:
                return
            scene = waiting.pop(0)
        try:
            _patiently(current, scene, engine)
        except Exception as error:
            with current.lock:
                failures.append(error)
                waiting.append(scene)
            return


def _patiently(current: Recording, scene: Scene, engine: Engine) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            left = current.left(scene)
            return current.run(left, engine) if left else None
        except Lost as error:
            if attempt == ATTEMPTS:
                raise
            current.say(f"{error}: waiting for it, attempt {attempt} of {ATTEMPTS}")
            if not engine.wait():
                raise


def _with_tokens(scene: Scene, decoded: dict[str, Transcript]) -> Scene:
    own = {request.name: decoded.get(f"{scene.of}/{request.name}") for request in scene.requests}
    return with_tokens(scene, {name: one.tokens for name, one in own.items() if one is not None})


def _progress(current: Recording, out: Console) -> Progress:
    total = sum(len(scene.requests) for scene in current.scenes)
    columns = (TextColumn("requests"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=out, disable=not out.is_terminal)
    task = bar.add_task("requests", total=total, completed=len(current.done))
    tenth = iter(_tenths(total, len(current.done)))
    due = [next(tenth, total + 1)]

    def show(done: int) -> None:
        bar.update(task, completed=done)
        if not out.is_terminal and done >= due[0]:
            due[0] = next((n for n in tenth if n > done), total + 1)
            out.print(f"{done} of {total} requests")

    current.show, current.say = show, bar.console.print
    return bar


def _tenths(total: int, done: int) -> Iterator[int]:
    return (n for n in range(max(1, total // 10), total + 1, max(1, total // 10)) if n > done)


def _manifest(asked: Asked, facts: Facts, scenes: list[Scene], engines: Sequence[Engine]) -> ArmManifest:
    arms, engine = asked.arms.of(asked.name), engines[0]
    if asked.urls:  # each is asked once: it reads its weights
        identities = {url: one.identity() for url, one in zip(asked.urls, engines, strict=True)}
        found = served(identities, asked.arms.arguments(asked.name), arms.environment)
    else:
        found = engine.identity()
    return ArmManifest(
        name=asked.name,
        arm_set=asked.file,
        decode_backend=BACKENDS[asked.name],
        stand_in=arms.stand_in,
        engine=arms.engine | {"model": arms.model, "block_size": facts.block},
        scenes=tuple(scene.name for scene in scenes),
        decode_only=tuple(scene.name for scene in scenes if scene.decode_only),
        minimum=arms.minimum_specialized,
        rounds_to=arms.rounds_to,
        layers=arms.layers,
        attn_res_block=arms.attn_res_block,
        model=found.weights,
        plan=digest(scenes),
        reproducible=arms.reproducible,
        planted=asked.plant,
        served=asked.urls,
        serves=engine.serves,
        environment=found.environment,
        planned=sum(len(scene.requests) for scene in scenes),
        **provenance.made(vllm=engine.version()) | {"machine": found.machine},
    )
