"""Refusals, and a run's record, summary and exit code from results that are given."""

import importlib.util
import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from tests.support import ROOT, Tool
from validate.errors import InputError
from validate.races import jobs
from validate.races.gpu import needs, plan, session, summary
from validate.races.gpu.record import TRIALS, Asked, Attempt, Manifest, Report, Sanitized, Trial, Tried, read
from validate.records.model import Machine, VllmFiles
from validate.verdict import worst

FINE = Attempt(repeats=200)
WRONG = Attempt(repeats=200, unequal=17, detail="4 of 8 bytes of out differ")


def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def a_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")


def test_without_a_gpu_it_is_one_line(tool: Tool) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert "compute capability 9.0 (H100, H200), and torch finds none here" in tool.refused("races-gpu")
    assert not list(tool.cwd.iterdir())


def test_another_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    a_gpu(monkeypatch, (10, 3))
    with pytest.raises(InputError, match=r"the a GPU here has 10\.3"):
        needs.gpu()
    a_gpu(monkeypatch, (9, 0))
    assert needs.gpu() == "a GPU"


def test_without_vllm_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no vLLM under"):
        needs.opened(tmp_path)
    (tmp_path / "vllm").mkdir()
    with pytest.raises(InputError, match="entry points are not those"):
        needs.opened(tmp_path)


def test_the_trials_are_listed_on_any_machine(tool: Tool) -> None:
    done = tool("races-gpu", "--list", "-k", "mla_value")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(plan.chosen("mla_value"))


def manifest() -> Manifest:
    return Manifest(
        asked=Asked(vllm_src="/vllm"),
        planned=1,
        gpu="NVIDIA H200",
        vllm=VllmFiles(version="0.33.0", commit=None, files={}),
        versions={},
        source="0" * 16,
        commit="c" * 40,
        dirty=False,
        machine=Machine(system="Linux", cpu="a CPU", cores=2, memory_gib=8.0),
        start="2026-01-01T00:00:00Z",
    )


def ended(there: Path, sound: Attempt, control: Attempt, *sanitized: Sanitized) -> tuple[int, str, str, str]:
    tried = [Tried(trial=plan.TRIALS[0], sound=sound, control=control, undisturbed=FINE, seconds=9.5)]
    out = Console(file=io.StringIO(), width=200)
    planned = manifest().model_copy(update={"planned": 1 + len(sanitized)})
    code = session.end(there, planned, tried, sanitized, out)
    texts = [(there / name).read_text() for name in ("summary.md", "junit.xml")]
    return code, *texts, out.file.getvalue()  # type: ignore[attr-defined,return-value]


def test_a_pass_says_what_ran(tmp_path: Path) -> None:
    code, summary, junit, said = ended(tmp_path, FINE, WRONG)
    assert code == 0
    assert "**vLLM's own kernels**, on NVIDIA H200" in summary
    assert "| 200 right | 17 of 200 unequal | 200 right |" in summary
    assert 'failures="0" errors="0"' in junit
    assert said.splitlines()[-1].startswith("PASS  ")
    assert Manifest.model_validate_json((tmp_path / "manifest.json").read_text()).verdict == "PASS"


@pytest.mark.parametrize("there", ["golden/races/hopper", "golden/races/hopper/sanitizer"])
def test_the_golden_summaries_are_what_their_records_say(there: str) -> None:
    found, tried, sanitized = read(ROOT / there)
    tried.sort(key=lambda one: one.trial.name)
    sanitized.sort(key=lambda one: one.name)
    assert (ROOT / there / "summary.md").read_text() == summary.render(found, tried, sanitized)
    assert worst(check.verdict for check in session.checks(tried, sanitized) if check.verdict) is found.verdict


def test_a_wrong_kernel_fails_and_is_told(tmp_path: Path) -> None:
    code, summary, junit, said = ended(tmp_path, WRONG, WRONG)
    assert code == 1
    assert "17 of 200 unequal: 4 of 8 bytes of out differ" in summary
    assert "17 of 200 unequal: 4 of 8 bytes of out differ" in said
    assert 'failures="1"' in junit


def test_a_control_that_is_right_is_no_pass(tmp_path: Path) -> None:
    code, summary, junit, _ = ended(tmp_path, FINE, FINE)
    assert code == 2
    assert "this proves nothing" in summary
    assert 'errors="1"' in junit


def test_what_this_gpu_cannot_get_wrong_is_not_judged_and_no_run_by_itself(tmp_path: Path) -> None:
    code, summary, junit, said = ended(tmp_path, FINE, FINE.model_copy(update={"shut": "it waits for all"}))
    assert code == 3
    assert "| not judged | 200 right | 200 right |" in summary
    assert "not judged: it waits for all" in summary
    assert "not judged: it waits for all" in said
    assert 'skipped="1"' in junit


def test_a_report_of_the_sanitizer_fails(tmp_path: Path) -> None:
    report = Report(severity="error", text="Invalid __global__ read", kernel="kernel_cutlass_kda", count=3)
    one = Sanitized(tool="memcheck", kernel="kda", sizes={"rows": 4}, reports=(report,))
    code, summary, _, said = ended(tmp_path, FINE, WRONG, one)
    assert code == 1
    assert "| memcheck/kda/rows4 | FAIL | 3 | error: Invalid __global__ read |" in summary
    assert "3 in kernel_cutlass_kda" in said


def whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vllm_source: Path, asked: Asked) -> int:
    a_gpu(monkeypatch, (9, 0))
    there = session.begin(vllm_source, asked, tmp_path)
    return session.run(there, None, 3, Console(file=io.StringIO(), width=200))


def record(tmp_path: Path) -> Path:
    (there,) = tmp_path.iterdir()
    return there


@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")
def test_a_run_records_each_trial_as_it_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vllm_source: Path) -> None:
    def tried(trial: Trial, asked: Asked, scratch: Path, number: int) -> Tried:
        assert Path(asked.vllm_src).is_dir()
        assert scratch.is_dir()
        return Tried(trial=trial, sound=FINE, control=WRONG)

    monkeypatch.setattr(session.children, "tried", tried)
    assert whole(monkeypatch, tmp_path, vllm_source, Asked(vllm_src="", keyword="mla_query")) == 0
    names = [Tried.model_validate_json(row).trial.name for row in (record(tmp_path) / TRIALS).read_text().splitlines()]
    assert sorted(names) == sorted(trial.name for trial in plan.chosen("mla_query"))
    found = Manifest.model_validate_json((record(tmp_path) / "manifest.json").read_text())
    assert found.vllm.version == "0.33.0"
    assert any(name.endswith("kda/kernel.py") for name in found.vllm.files)


@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")
def test_an_interrupted_run_is_invalid_and_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vllm_source: Path
) -> None:
    first = plan.chosen("mla_query")[0]

    def tried(trial: Trial, asked: Asked, scratch: Path, number: int) -> Tried:
        if trial != first:
            raise KeyboardInterrupt
        return Tried(trial=trial, sound=FINE, control=WRONG)

    stopped = []
    monkeypatch.setattr(session.children, "tried", tried)
    monkeypatch.setattr(session.children, "stop", lambda: stopped.append(True))
    monkeypatch.setattr(jobs, "as_completed", lambda waiting: waiting)
    with pytest.raises(KeyboardInterrupt):
        whole(monkeypatch, tmp_path, vllm_source, Asked(vllm_src="", keyword="mla_query"))
    assert stopped
    assert Manifest.model_validate_json((record(tmp_path) / "manifest.json").read_text()).verdict == "INVALID"
    assert "**INVALID**: 1 of " in (record(tmp_path) / "summary.md").read_text()


LOST = "the kernel: exit code 1: CUDA error: out of memory"


@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")
def test_a_resumed_run_makes_what_has_no_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vllm_source: Path) -> None:
    first, lost, *_ = plan.chosen("mla_query")
    asked = Asked(vllm_src="", keyword="mla_query", repeats=7)
    a_gpu(monkeypatch, (9, 0))
    there = session.begin(vllm_source, asked, tmp_path)
    known = [Tried(trial=first, sound=FINE, control=WRONG, seconds=77.0), Tried(trial=lost, lost=LOST)]
    (there / TRIALS).write_text("".join(one.model_dump_json() + "\n" for one in known) + '{"cut')
    made: list[Trial] = []

    def tried(trial: Trial, asked: Asked, scratch: Path, number: int) -> Tried:
        made.append(trial)
        assert asked.repeats == 7
        return Tried(trial=trial, sound=FINE, control=WRONG)

    monkeypatch.setattr(session.children, "tried", tried)
    assert session.run(there, None, 1, Console(file=io.StringIO(), width=200)) == 0
    assert made == plan.chosen("mla_query")[1:]
    rows = [Tried.model_validate_json(row) for row in (there / TRIALS).read_text().splitlines()]
    assert [row.trial.name for row in rows] == [trial.name for trial in plan.chosen("mla_query")]
    assert rows[0].seconds == 77.0
    made.clear()
    assert session.run(there, None, 1, Console(file=io.StringIO(), width=200)) == 0
    assert not made


@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("source", "f" * 16, "the suite's source has changed"),
        ("gpu", "NVIDIA H100", "it was begun on NVIDIA H100, and here is a GPU"),
        ("vllm", VllmFiles(version="0.33.0", commit=None, files={"vllm/x.py": "0"}), "are not those that it was begun with"),
    ],
)
def test_a_run_is_not_resumed_where_something_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vllm_source: Path, field: str, value: object, said: str
) -> None:
    a_gpu(monkeypatch, (9, 0))
    there = session.begin(vllm_source, Asked(vllm_src=""), tmp_path)
    begun = Manifest.model_validate_json((there / "manifest.json").read_text()).model_copy(update={field: value})
    (there / "manifest.json").write_text(begun.model_dump_json())
    with pytest.raises(InputError, match=said):
        session.run(there, None, 1, Console(file=io.StringIO(), width=200))


def test_a_run_is_not_resumed_with_other_options(tool: Tool) -> None:
    (tool.cwd / "run").mkdir()
    (tool.cwd / "run/manifest.json").write_text(manifest().model_dump_json())
    (tool.cwd / "run" / TRIALS).write_text("")
    said = tool.refused("races-gpu", "--resume", "run", "--repeats", "5")
    assert "cannot resume run with another repeats: it was begun with 200" in said
    assert "with another sanitize" in tool.refused("races-gpu", "--resume", "run", "--sanitize")


def test_an_explained_report_is_a_note(tmp_path: Path) -> None:
    update = {"places": ("+0x10 A", "+0x20 B"), "explained": "one thread"}
    report = Report(severity="warning", text="race", kernel="kernel_cutlass_kda", count=2).model_copy(update=update)
    one = Sanitized(tool="racecheck", kernel="kda", sizes={"rows": 4}, reports=(report,))
    code, summary, _, _ = ended(tmp_path, FINE, WRONG, one)
    assert code == 0
    assert "since the tool does not come back: racecheck/kda/tp8-rows32; racecheck/kda/" in summary
    assert "| racecheck/kda/rows4 | PASS | 2, 2 of them explained |  |" in summary
    assert "- racecheck/kda/rows4: +0x10 A, +0x20 B: no fault: one thread" in summary
