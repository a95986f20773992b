"""Processes that hang, die or say nothing: none of them is a pass."""

import contextlib
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from validate.paths.vllm.source import Source
from validate.races.gpu import children, judging
from validate.races.gpu.bound import Bound
from validate.races.gpu.child import Part
from validate.races.gpu.faults import FAULTS
from validate.races.gpu.record import Asked, Attempt, Trial
from validate.verdict import Verdict

TRIAL = Trial(kernel="kda", sizes={"tp": 16, "rows": 4}, adversary="predecessor", fault="kda-wait")
ASKED = Asked(vllm_src="nowhere")
FINE = Part(part="sound", attempt=Attempt(repeats=200)).model_dump_json()
STUCK = Part(part="sound", attempt=Attempt(repeats=3, hung=True, detail="did not end within 5 s")).model_dump_json()
WRONG = Part(part="control", attempt=Attempt(repeats=200, unequal=9)).model_dump_json()


def stands_for_a_child(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Instead of the child's module: OUT is the last argument."""
    run = children.ended

    def instead(command: list[str], log: Path, deadline: float) -> str:
        return run([sys.executable, "-c", f"import sys\nout = open(sys.argv[1], 'w')\n{body}", command[-1]], log, deadline)

    monkeypatch.setattr(children, "ended", instead)


def writes(*lines: str) -> str:
    return "".join(f"out.write({line + chr(10)!r}); out.flush()\n" for line in lines)


@pytest.mark.parametrize(
    ("body", "wanted", "said"),
    [
        (writes(FINE, WRONG), Verdict.PASS, None),
        (writes(STUCK) + "import os; os._exit(0)", Verdict.FAIL, None),
        (writes(FINE) + "import time; time.sleep(60)", Verdict.INVALID, "its control: killed after 1 s"),
        ("import time; time.sleep(60)", Verdict.INVALID, "the kernel: killed after 1 s"),
        ("sys.exit('vllm/kda: no such file')", Verdict.INVALID, "the kernel: exit code 1: vllm/kda: no such file"),
        (writes(FINE) + "import os; os.kill(os.getpid(), 11)", Verdict.INVALID, "its control: exit code -11: it said nothing"),
        (writes(FINE) + f"out.write({WRONG[:20]!r})", Verdict.INVALID, "its control: exit code 0"),
    ],
)
def test_what_a_child_comes_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, wanted: Verdict, said: str | None
) -> None:
    stands_for_a_child(monkeypatch, body)
    start = time.monotonic()
    found = children.tried(TRIAL, ASKED, tmp_path, 0, deadline=1.0)
    assert time.monotonic() - start < 30
    assert judging.verdict(found) is wanted
    assert found.lost == said


def test_a_child_that_is_killed_has_said_where_it_was(tmp_path: Path) -> None:
    waits = "import faulthandler, time\nfaulthandler.dump_traceback_later(0.2)\ntime.sleep(60)"
    said = children.ended([sys.executable, "-c", waits], tmp_path / "log", 2.0)
    assert said == 'killed after 2 s in File "<string>", line 3 in <module>'


def test_the_real_child_says_why_it_cannot(tmp_path: Path) -> None:
    found = children.tried(TRIAL, ASKED, tmp_path, 0, deadline=100.0)
    assert judging.verdict(found) is Verdict.INVALID
    assert str(found.lost).startswith("the kernel: exit code 1: ")
    assert re.search(r'Error: .+ \(File ".*validate/.*", line \d+, in \w+\)$', str(found.lost))


FAILED = """a warning
Traceback (most recent call last):
  File "/suite/validate/races/gpu/child.py", line 60, in _try
    bench = Bench()
            ^^^^^^^
  File "/suite/validate/races/gpu/bench.py", line 30, in __init__
    torch.cuda.set_device(self.device)
  File "/env/torch/cuda/__init__.py", line 567, in set_device
    torch._C._cuda_setDevice(device)
torch.AcceleratorError: CUDA error: out of memory
Search for `cudaErrorMemoryAllocation' in the documentation for more information.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.

"""


def test_of_an_error_its_first_line_is_kept_and_where_in_the_suite() -> None:
    place = 'File "/suite/validate/races/gpu/bench.py", line 30, in __init__'
    assert children.reason(FAILED) == f"torch.AcceleratorError: CUDA error: out of memory ({place})"
    assert children.reason("ValueError\n" + FAILED).startswith("torch.AcceleratorError: CUDA error")
    elsewhere = 'Traceback (most recent call last):\n  File "/env/x.py", line 1, in y\nOSError: full\n'
    assert children.reason(elsewhere) == 'OSError: full (File "/env/x.py", line 1, in y)'
    assert children.reason(elsewhere[:40]) == "an exception that was cut off"
    assert children.reason("one\ntwo\n") == "two"


def test_what_runs_is_stopped(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(children.ended, [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log", 50.0)
        while not children._running:
            time.sleep(0.01)
        children.stop()
        assert waiting.result(timeout=20) == "exit code -9: it said nothing"
    assert not children._running


@pytest.mark.parametrize(
    ("control", "parts"),
    [("not armed again", ["sound", "control", "undisturbed"]), ("hung", ["sound", "control"])],
)
def test_a_child_tries_the_kernel_its_control_and_the_control_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vllm_source: Path, control: str, parts: list[str]
) -> None:
    pytest.importorskip("cutlass")
    from tests.races.gpu import test_trial
    from validate.races.gpu import adversaries, bench, child, kernels

    made: list[Path] = []

    class Here(test_trial.NoGpu):
        device = "cpu"

        def expect(self, bound: object) -> None: ...

        def finish(self, bound: object) -> None:
            if control == "hung" and made[-1].name == "control":
                raise bench.Hung("did not end within 5 s")

    def bind(source: Source, device: str, **sizes: int) -> Bound:
        made.append(source.root)
        return test_trial.kernel(rearm=source.root.name not in ("control", "undisturbed"))

    monkeypatch.setattr(bench, "Bench", Here)
    monkeypatch.setattr(kernels, "KERNELS", {"kda": bind})
    monkeypatch.setattr(adversaries, "ADVERSARIES", {"predecessor": test_trial.Late})
    order = child.Order(
        trial=TRIAL.model_copy(update={"stall": "kda-start"}), vllm_src=str(vllm_source), repeats=6, dump_after=60.0
    )
    told: dict[str, Attempt] = {}

    class Ended(Exception): ...

    def tell(part: str, attempt: Attempt) -> None:
        told[part] = attempt
        if attempt.hung:
            raise Ended  # as the child's process ends

    with contextlib.suppress(Ended):
        child._try(order, tmp_path, tell)
    assert list(told) == parts
    assert told["sound"] == Attempt(repeats=6)
    assert told["control"].wrong
    names = [root.name for root in made]
    assert names[:3] == ["sound", vllm_source.name, "control"]
    assert names[3:] == parts[2:]
    for name, delay in (("sound", True), ("control", True), ("undisturbed", False))[: len(parts)]:
        text = (tmp_path / name / FAULTS[TRIAL.fault].change.file).read_text()
        assert ("spin(100000)" in text) == delay
        assert ("griddepcontrol_wait()" in text) == (name == "sound")
