"""Cases on a GPU, in a process of their own with a deadline: a kernel that polls may poll for ever.

``python -m validate.numerics.child PLAN`` judges tasks of a plan, one after the other, as they are asked for on its standard
input: ``[case, file]``, JSON, a line each. It writes the task's lines to the file and answers with a line.
"""

import contextlib
import faulthandler
import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

from validate.processes import end_with_parent
from validate.records.model import Line

DEADLINE = 150.0  # seconds: several times what starting, building, compiling and judging a case takes
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TELLING = 5.0  # seconds before it, the child says where it is


class Child:
    """A process that judges cases; another takes its place when it was killed, died, or has lost its GPU."""

    def __init__(self, plan_file: Path) -> None:
        self._command = [sys.executable, "-m", "validate.numerics.child", str(plan_file)]
        self._process: subprocess.Popen[bytes] | None = None
        self._said = plan_file.with_name(f"child-{os.getpid()}-of-{id(self)}")  # its standard error

    def judged(self, case: str, scratch: Path) -> list[Line]:
        """The lines of a case's task. RuntimeError where the process died or had to be killed."""
        process, lines = self._started(), scratch / "lines.json"
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it died just now: there is no answer
            process.stdin.write(json.dumps([case, str(lines)]).encode() + b"\n")
            process.stdin.flush()
        ended, _, _ = select.select([process.stdout], [], [], DEADLINE)
        answer = process.stdout.readline() if ended else b""
        if not ended:
            process.kill()
        if not answer.startswith(b"goes on"):
            self.close()
        if not lines.is_file():
            raise RuntimeError(f"the process of this case gave no result: {self._reason(process, killed=not ended)}")
        return [Line.model_validate_json(line) for line in json.loads(lines.read_text(encoding="utf-8"))]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:  # it died after its last answer
            self.close()
        if self._process is None:
            pipe = subprocess.PIPE
            with self._said.open("wb") as said:
                self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=said)
        return self._process

    def close(self) -> None:
        """Ends the process, which ends by itself when nothing more can be asked."""
        if self._process is not None:
            with self._process as process:
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):  # what it was asked last and never read
                    process.stdin.close()
            self._process = None

    def _reason(self, process: subprocess.Popen[bytes], *, killed: bool) -> str:
        text = ESCAPES.sub("", self._said.read_text(encoding="utf-8", errors="replace"))
        said = [line.strip() for line in text.splitlines() if line.strip()]
        if killed:
            return f"killed after {DEADLINE:.0f} s" + next((f" in {line}" for line in said if line.startswith("File ")), "")
        if not said:
            return f"exit code {process.returncode}"
        return next((line for line in said if line.startswith("error")), said[-1])  # a compiler's comes before its advice


def _main(plan_file: str) -> None:
    import torch

    from validate.numerics import judge, plan
    from validate.numerics.test_stages import beside_kernels

    end_with_parent()
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what compilers print is no answer
    planned = plan.read(Path(plan_file))
    tasks = {task.case: task for task in planned.tasks}
    cases = {case.id: case for case in judge.cases(planned.profile)}
    for asked in sys.stdin:
        faulthandler.dump_traceback_later(DEADLINE - TELLING)
        case_id, out = json.loads(asked)
        lines = beside_kernels(cases[case_id], planned.subjects(tasks[case_id]))
        Path(out).write_text(json.dumps([line.model_dump_json() for line in lines]), encoding="utf-8")
        faulthandler.cancel_dump_traceback_later()
        if any(m.check == "finished" for line in lines for m in line.failures):
            os._exit(0)  # a kernel that still polls would keep an ordinary exit waiting
        print("goes on", file=answers)


if __name__ == "__main__":
    _main(*sys.argv[1:])
