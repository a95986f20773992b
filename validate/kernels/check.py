"""``python -m validate build``: compiles what a profile uses, compares it with golden/, and writes the run's folder."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from validate.errors import InputError
from validate.kernels import golden, needs
from validate.kernels.compiling import TOOLS, Cache, Compiler, Plan, Result
from validate.kernels.deployment import Deployment, deployments
from validate.kernels.report import render
from validate.keywords import matches
from validate.paths.vllm.source import opened
from validate.profiles import Profile
from validate.records import folder, provenance
from validate.verdict import Verdict, worst

PROGRESS_EVERY = 10.0  # seconds between two progress lines
SHOWN = 40  # lines of differences that are printed; build.json has them all


@dataclass
class Architecture:
    """What came out for one architecture: results by variant, and what differs from golden/."""

    name: str
    plan: Plan
    results: dict[str, Result] = field(default_factory=dict)
    cached: int = 0
    differences: list[golden.Difference] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    other_tools: bool = False
    other_profile: bool = False
    seconds: float = 0.0

    @property
    def failed(self) -> dict[str, str]:
        """The variants that do not compile, and why."""
        return {name: result["error"] for name, result in self.results.items() if "error" in result}

    @property
    def compiled(self) -> dict[str, Result]:
        """The fingerprints of those that do."""
        return {name: result for name, result in self.results.items() if "error" not in result}

    @property
    def verdict(self) -> Verdict:
        """FAIL if a kernel does not compile or is not as recorded; INCONCLUSIVE where something else explains the difference.

        Other tools explain every difference; that golden was recorded for another profile explains variants that it lacks.
        """
        unexplained = [d for d in self.differences if not (self.other_profile and d.unknown)] or self.gone
        if self.failed or (unexplained and not self.other_tools):
            return Verdict.FAIL
        return Verdict.INCONCLUSIVE if self.differences or self.gone else Verdict.PASS


@dataclass(frozen=True)
class Request:
    """What is asked for. ``root`` is the folder that holds vllm/."""

    root: Path
    profile_name: str  # as it was given: a name or a file
    profile: Profile
    architectures: Sequence[str]
    keyword: str | None
    workers: int
    cache: Path
    output: Path
    update: bool


def run(request: Request, out: Console) -> int:
    """The exit code: 0 PASS, 1 FAIL, 2 INCONCLUSIVE."""
    source = opened(request.root)
    wanted = deployments(request.profile)
    recorded = _possible(request, wanted)
    made_with = {"profile": request.profile.name, "vllm": source.version()[0]} | {
        name: provenance.version(name) for name in TOOLS
    }
    done = []
    for arch in request.architectures:
        done.append(found := _architecture(request, arch, wanted, out))
        if arch in recorded:
            _compare(found, recorded[arch], made_with, whole=request.keyword is None)
        elif not found.failed:
            golden.write(golden.path(arch), golden.Golden(made_with, found.compiled))
            out.print(f"{golden.path(arch)} written", markup=False, soft_wrap=True)
    launches = _launches(request, out)
    verdict = worst([launches.verdict or Verdict.PASS, *(architecture.verdict for architecture in done)])
    run_folder = folder.create(request.output, f"build-{request.profile.name}")
    record = {
        "verdict": verdict,
        "made_with": made_with,
        "vllm_commit": source.version()[1],
        "commit": provenance.commit()[0],
        "machine": provenance.machine().model_dump(),
        "keyword": request.keyword,
        "launches": launches.lines,
        "architectures": {architecture.name: _record(architecture) for architecture in done},
    }
    folder.write(run_folder, "build.json", json.dumps(record, indent=1) + "\n")
    folder.write(run_folder, "build.md", render(verdict, made_with, done, launches))
    for architecture in done:
        _tell(architecture, out)
    out.print(f"{verdict}: {run_folder}/build.md", markup=False, soft_wrap=True)
    return verdict.exit_code


@dataclass(frozen=True)
class Launches:
    """What vLLM's own decode steps launch, held against what was compiled: one line a difference, then a count.

    ``verdict``: None where they were left out.
    """

    lines: list[str]
    verdict: Verdict | None


def _launches(request: Request, out: Console) -> Launches:
    """In a process of its own: what stands in for a driver replaces much. Left out where single kernels are asked for."""
    if request.keyword is not None:
        return Launches(["left out: -k asks for single kernels"], None)
    out.print("launching vLLM's decode steps over tensors without memory", markup=False, soft_wrap=True)
    command = [sys.executable, "-m", "validate.kernels.steps", request.profile_name, str(request.root)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode not in (0, 1) or "Traceback (most recent call last)" in done.stderr:
        lines.append(f"the steps do not launch: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    for line in lines[-SHOWN:]:
        out.print(f"launches: {line}", markup=False, soft_wrap=True)
    return Launches(lines, Verdict.FAIL if done.returncode else Verdict.PASS)


def _possible(request: Request, wanted: Sequence[Deployment]) -> dict[str, golden.Golden]:
    """What is recorded, by architecture; nothing where it is to be recorded. InputError for what can not be done."""
    missing = needs.missing()
    if missing:
        raise InputError(f"the build check needs {', '.join(missing)}; nox -s build installs them")
    if not wanted:
        raise InputError(f"profile {request.profile.name} has no TP size of 8 or 16: there is nothing to compile")
    if request.update and request.keyword:
        raise InputError("--update-golden records whole files: leave -k out")
    return {} if request.update else {arch: golden.read(golden.path(arch)) for arch in request.architectures}


def _architecture(request: Request, arch: str, wanted: Sequence[Deployment], out: Console) -> Architecture:
    start = time.monotonic()
    cache = Cache(request.cache, request.root, arch)
    with Compiler(request.root, arch, wanted, request.workers) as compiler:
        key = "plan " + repr(wanted)
        remembered = cache.get(key)
        plan = Plan(**remembered) if remembered else compiler.plan()
        if not remembered:
            cache.put(key, {"deployments": plan.deployments, "signatures": plan.signatures})
        names = [name for name in plan.signatures if request.keyword in (None, name) or matches(str(request.keyword), name)]
        if not names:
            example = next(iter(plan.signatures))
            raise InputError(f"-k '{request.keyword}' selects none of the {len(plan.signatures)} variants; one is {example}")
        found = Architecture(arch, plan)
        keys = {name: f"{name} {plan.signatures[name]}" for name in names}
        found.results = {name: result for name in names if (result := cache.get(keys[name])) is not None}
        found.cached = len(found.results)
        left = [name for name in names if name not in found.results]
        out.print(f"{arch}: {len(names)} variants, {found.cached} known, {len(left)} to compile", markup=False, soft_wrap=True)
        told = time.monotonic()
        try:
            for name, result in compiler.compile(left):
                found.results[name] = result
                if "error" not in result:
                    cache.put(keys[name], result)
                if time.monotonic() - told > PROGRESS_EVERY:
                    told = time.monotonic()
                    out.print(_progress(found, len(names), told - start), markup=False, soft_wrap=True)
        except KeyboardInterrupt:
            kept = len(found.compiled)
            out.print(
                f"interrupted; {kept} of {len(names)} variants of {arch} are kept: the same command goes on", soft_wrap=True
            )
            raise
    found.seconds = time.monotonic() - start
    return found


def _progress(found: Architecture, wanted: int, seconds: float) -> str:
    there = len(found.results)
    left = seconds / max(1, there - found.cached) * (wanted - there)
    return f"{found.name}: {there} of {wanted}, {len(found.failed)} failed, about {left / 60:.0f} min left"


def _compare(found: Architecture, recorded: golden.Golden, made_with: dict[str, str], *, whole: bool) -> None:
    found.differences = golden.compare(recorded.variants, found.compiled)
    other = {name: value for name, value in recorded.made_with.items() if made_with.get(name) != value}
    profile = other.pop("profile", None)
    found.other_tools, found.other_profile = any(name in TOOLS for name in other), profile is not None
    if whole and not found.other_profile:
        found.gone = [name for name in recorded.variants if name not in found.results]
    for name, value in other.items():
        note = f"golden was made with {name} {value}, this run with {made_with.get(name)}: differences may come from that"
        found.notes.append(f"{note}, so they are not held against the kernels" if name in TOOLS else note)
    unknown = sum(difference.unknown for difference in found.differences)
    if unknown and found.other_profile:
        found.notes.append(
            f"golden was recorded for profile {profile} and does not know {unknown} of this run's variants: "
            "they compile, and there is nothing to hold them against"
        )


def _record(found: Architecture) -> dict[str, object]:
    """As it stands in build.json."""
    return {
        "seconds": round(found.seconds, 1),
        "from_cache": found.cached,
        "deployments": {name: len(variants) for name, variants in found.plan.deployments.items()},
        "failed": found.failed,
        "differences": [str(difference) for difference in found.differences],
        "gone": found.gone,
        "notes": found.notes,
        "fingerprints": found.compiled,
    }


def _tell(found: Architecture, out: Console) -> None:
    lines = [f"{name}: does not compile: {why}" for name, why in found.failed.items()]
    lines += golden.grouped(found.differences)
    lines += [f"{name}: golden knows it, vLLM compiles it no more" for name in found.gone]
    for line in [*found.notes, *lines[:SHOWN]]:
        out.print(f"{found.name} {line}", markup=False, soft_wrap=True)
    if len(lines) > SHOWN:
        out.print(f"{found.name} ... {len(lines) - SHOWN} more lines in build.md", markup=False, soft_wrap=True)
    out.print(
        f"{found.name} {found.verdict}: {len(found.compiled)} compiled, {len(found.failed)} not, {found.seconds:.0f} s",
        markup=False,
    )
