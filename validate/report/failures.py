"""A failing case as a person needs it: what, by how much, where, and the one command that runs it again alone."""

import shlex

from validate.records.model import Line, Manifest
from validate.report.tables import share
from validate.verdict import Verdict


def rerun(manifest: Manifest, line: Line) -> str:
    """The command that runs a line's case alone; over ranks, torchrun adds to its record afterwards."""
    arguments = manifest.arguments
    words = ["nox", "-s", "numerics", "--", "--profile", arguments.profile, "-k", line.case]
    if line.seed > 0:
        words += ["--seeds", str(line.seed + 1)]  # the last of so many seeds
    if arguments.planted:
        words += ["--plant", arguments.planted]
    if arguments.vllm_src:
        words += ["--vllm-src", arguments.vllm_src]
    quoted = [f"'{word}'" if "/" in word and "'" not in word else shlex.quote(word) for word in words]
    return " ".join(quoted)


def describe(manifest: Manifest, line: Line) -> str:
    """Several lines of text for a line that did not pass."""
    sizes = ", ".join(f"{name} {value}" for name, value in line.sizes.items())
    text = [
        f"{line.verdict} {line.subject} on {line.case}",
        f"  stage {line.stage}: {sizes}, inputs {line.inputs}, seed {line.seed}",
    ]
    if line.error is not None:
        text.append(f"  {line.error}")
    for m in line.failures:
        text.append(f"  {m.tensor} {m.check}: {m.figure:.6g}, bound {m.bound:.6g} ({share(m.ratio)} of it); {m.detail}")
    text.append(f"  rerun: {rerun(manifest, line)}")
    if line.ranks is not None:
        text.append(f"  then over {line.ranks} ranks: torchrun with that run's folder, as --dry-run prints it")
    return "\n".join(text)


def not_passed(lines: list[Line]) -> list[Line]:
    """The lines to describe, the worst verdict first."""
    bad = [line for line in lines if line.judged and line.verdict is not Verdict.PASS]
    return sorted(bad, key=lambda line: line.verdict is not Verdict.FAIL)
