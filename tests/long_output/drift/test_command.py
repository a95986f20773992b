"""The command line: verdicts, interruption and resumption, bad input."""

import json
import signal
import time
from pathlib import Path

import pytest

from tests.support import Tool
from validate import cli

SHORT = ("drift", "--steps", "256")


def only_run(tool: Tool) -> Path:
    (run,) = (tool.cwd / "runs").iterdir()
    return run


def test_too_few_steps_are_inconclusive(tool: Tool) -> None:
    done = tool(*SHORT)
    assert done.returncode == 2, done
    run = only_run(tool)
    kept = {path.name for path in run.iterdir()} - {".lock", "SHA256SUMS"}
    assert kept == {"manifest.json", "measurements.jsonl", "junit.xml", "summary.md"}
    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["verdict"], manifest["exit_code"]) == ("INCONCLUSIVE", 2)
    assert 'errors="2"' in (run / "junit.xml").read_text()
    assert (run / "summary.md").read_text().startswith("# INCONCLUSIVE: state drift over 256 steps")


def test_a_planted_fault_fails(tool: Tool) -> None:
    done = tool(*SHORT, "--plant", "decay-biased")
    assert done.returncode == 1, done
    assert "FAIL emulated-specialized, seed 0 from step" in done.stdout
    assert "nothing is said of Kimi K3's weights or of kernels" in done.stdout
    assert 'failures="2"' in (only_run(tool) / "junit.xml").read_text()


def test_an_interrupted_run_is_resumed(tool: Tool) -> None:
    """Its figures are those of a run that was not interrupted."""
    process = tool.start("drift", "--steps", "256", "--seeds", "4")
    for _ in range(600):
        time.sleep(0.05)
        found = list(tool.cwd.glob("runs/*/measurements.jsonl"))
        if found and found[0].read_text():
            break
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    run = only_run(tool)
    assert f"drift --resume runs/{run.name}" in out
    assert "No verdict can rest on it" in (run / "summary.md").read_text()
    assert tool("drift", "--resume", str(run)).returncode == 2
    lines = (run / "measurements.jsonl").read_text()
    assert [json.loads(line)["seed"] for line in lines.splitlines()] == [seed for seed in range(4) for _ in range(2)]
    assert tool("drift", "--steps", "256", "--seeds", "4", "--output", "again").returncode == 2
    (again,) = (tool.cwd / "again").iterdir()
    assert (again / "measurements.jsonl").read_text() == lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--plant", "no-such"), "unknown fault 'no-such'"),
        (("--plant", "counter-wraps", "--steps", "1000"), "changes nothing before step 65,536"),
        (("--faults", "--steps", "1000"), "changes nothing before step 4,096"),
        (("--plant", "decay-cut", "--faults"), "--faults takes neither"),
        (("--resume", "nowhere"), "no run record: nowhere/manifest.json does not exist"),
        (("--resume", "nowhere", "--steps", "500"), "--resume takes no other argument"),
        (("--steps", "5"), "--steps"),
    ],
)
def test_bad_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["validate", "drift", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    assert not (tmp_path / "runs").exists()
