"""A case in a process of its own, with a deadline: for kernels that poll, and may poll for ever.

``python -m validate.numerics.child PLAN CASE LINES`` judges one task of a plan and writes its lines.
"""

import ctypes
import faulthandler
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from validate.records.model import Line

PR_SET_PDEATHSIG = 1  # linux/prctl.h
DEADLINE = 150.0  # seconds: several times what building, compiling and judging a case takes
TELLING = 5.0  # seconds before it, the child says where it is


def judged(plan_file: Path, case: str, scratch: Path) -> list[Line]:
    """The lines of a case's task. A child that died or had to be killed leaves none."""
    lines = scratch / "lines.json"
    command = [sys.executable, "-m", "validate.numerics.child", str(plan_file), case, str(lines)]
    try:
        done = subprocess.run(command, timeout=DEADLINE, capture_output=True, text=True)
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    except subprocess.TimeoutExpired as expired:
        reason = [f"killed after {DEADLINE:.0f} s{_place(expired.stderr)}"]
    if not lines.is_file():
        raise RuntimeError(f"the process of this case gave no result: {reason[0]}")
    return [Line.model_validate_json(line) for line in json.loads(lines.read_text(encoding="utf-8"))]


def _place(said: bytes | None) -> str:
    """Where a child said that it was."""
    lines = [line.strip() for line in (said or b"").decode(errors="replace").splitlines()]
    return next((f" in {line}" for line in lines if line.startswith("File ")), "")


def _main(plan_file: str, case_id: str, out: str) -> None:
    import torch

    from validate.numerics import judge, plan
    from validate.numerics.test_stages import line_of

    if sys.platform == "linux":  # ended with its parent, whose deadline is gone then
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(DEADLINE - TELLING)
    planned = plan.read(Path(plan_file))
    task = next(task for task in planned.tasks if task.case == case_id)
    case = next(case for case in judge.cases(planned.profile, [case_id.split("/")[0]]) if case.id == case_id)
    lines = [line_of(case, judgement) for judgement in judge.judge(case, planned.subjects(task))]
    Path(out).write_text(json.dumps([line.model_dump_json() for line in lines]), encoding="utf-8")
    os._exit(0)  # a kernel that still polls would keep an ordinary exit waiting


if __name__ == "__main__":
    _main(*sys.argv[1:])
