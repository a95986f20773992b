"""Runs of the races: what is searched, recorded, resumed and printed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import Tool
from validate.cli import app
from validate.errors import InputError
from validate.races import origins
from validate.races.protocols import PROTOCOLS, o_proj
from validate.races.record import EXPLORED, read
from validate.records import writer
from validate.verdict import Verdict

SMALL = ["races", "-k", "o_proj", "--walks", "2", "-n", "1"]


def run(*arguments: str) -> int:
    return int(app([*arguments], standalone_mode=False))


def last(output: Path) -> Path:
    return max(output.iterdir())


def test_a_model_of_another_version_of_its_kernel_is_undecided(
    tmp_path: Path, vllm_source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*SMALL, "--vllm-src", str(vllm_source), "--output", str(tmp_path / "same")) == 0
    assert "vLLM's files are those that the models were written after." in (last(tmp_path / "same") / "summary.md").read_text()
    other = tmp_path / "checkout"
    for file in origins.digests(vllm_source):
        (other / origins.NVIDIA / file).parent.mkdir(parents=True, exist_ok=True)
        (other / origins.NVIDIA / file).write_bytes((vllm_source / origins.NVIDIA / file).read_bytes())
    changed = other / origins.NVIDIA / "cutedsl/oproj/consumer.py"
    changed.write_text(changed.read_text() + "\n")
    assert run(*SMALL, "--vllm-src", str(other), "--output", str(tmp_path / "other")) == 2
    said = "o_proj: its model was written after another version of cutedsl/oproj/consumer.py"
    assert said in capsys.readouterr().out.replace("\n", " ")
    assert said in (last(tmp_path / "other") / "summary.md").read_text()
    assert 'errors="1"' in (last(tmp_path / "other") / "junit.xml").read_text()


def test_an_installed_vllm_is_asked_where_it_has_the_specialized_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = SimpleNamespace(submodule_search_locations=[str(tmp_path / "vllm")])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: places if name == "vllm" else None)
    (tmp_path / "vllm").mkdir()
    assert origins.files(None) is None  # an older one
    (tmp_path / origins.NVIDIA).mkdir(parents=True)
    assert origins.files(None) == tmp_path
    with pytest.raises(InputError, match="name the folder that holds vllm/"):
        origins.files(tmp_path / "vllm")


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_at_once_and_says_how_to_go_on(tool: Tool, tmp_path: Path, by: signal.Signals) -> None:
    """Its searches take minutes."""
    process = tool.start("races", "-n", "2")
    for _ in range(300):
        if (runs := list(tmp_path.glob("runs/*/explored.jsonl"))) and runs[0].stat().st_size:
            break
        time.sleep(0.1)
    process.send_signal(by)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 20
    assert process.returncode == 130
    assert "interrupted; go on with: python -m validate races --resume runs/" in out
    assert "Traceback" not in err


def test_every_protocol_says_which_files_it_was_written_after() -> None:
    assert set(origins.FILES) == {protocol.name for protocol in PROTOCOLS}


def test_a_sound_protocol_passes_and_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, "--output", str(tmp_path)) == 0
    assert "No kernel of vLLM's was run" in capsys.readouterr().out
    manifest, found = read(last(tmp_path))
    assert manifest.verdict is Verdict.PASS
    assert [one.search.how for one in found] == ["every interleaving"] * len(o_proj.PROTOCOL.whole) + ["random"]
    assert "No kernel of vLLM's was run" in (last(tmp_path) / "summary.md").read_text()
    assert 'failures="0" errors="0"' in (last(tmp_path) / "junit.xml").read_text()


def test_a_planted_fault_fails_with_a_trace_and_the_command_that_replays_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("races", "--plant", "o_proj.not-re-armed", "--walks", "2", "-n", "1", "--output", str(tmp_path)) == 1
    said = capsys.readouterr().out
    assert "stale read" in said
    assert "`o_proj.not-re-armed` was planted" in said
    rest = said.split("validate replay ")[1]
    (name, sizes), words = rest.split("'")[0].split(), rest.split("'")[1]
    assert run("replay", name, sizes, words) == 1
    assert "stale read: rank " in capsys.readouterr().out
    assert run("replay", "o_proj", sizes, "0!0 0!0") == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_a_limit_before_the_end_is_inconclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, "--limit", "5", "--output", str(tmp_path)) == 2
    assert "raise --limit" in capsys.readouterr().out
    for name in ("junit.xml", "summary.md"):
        assert "raise --limit" in (last(tmp_path) / name).read_text()


def test_every_fault_is_a_search_and_a_missed_one_fails(tmp_path: Path) -> None:
    assert run(*SMALL, "--faults", "--output", str(tmp_path)) == 0
    assert "| not-re-armed |" in (last(tmp_path) / "summary.md").read_text()
    assert run(*SMALL, "--faults", "--limit", "5", "--output", str(tmp_path / "short")) == 1


def test_a_run_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    run(*SMALL, "--output", str(tmp_path))
    there = last(tmp_path)
    lines = (there / EXPLORED).read_text().splitlines(keepends=True)
    (there / EXPLORED).write_text(lines[0].replace('"seconds":', '"seconds":1') + lines[1][:20])
    assert run("races", "--resume", str(there), "-n", "1") == 0
    again = (there / EXPLORED).read_text().splitlines()
    assert len(again) == len(lines)
    assert json.loads(again[0])["seconds"] >= 1  # kept, not searched again


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["races", "-k", "nothing"], "-k 'nothing' selects none of the protocols split_k"),
        (["races", "--plant", "nothing.x"], "there is no protocol nothing: split_k"),
        (["races", "--plant", "o_proj.x"], "o_proj has no fault 'x': not-re-armed"),
        (["races", "--faults", "--plant", "o_proj.minus-zero"], "leave --plant out"),
        (["races", "--plant", "o_proj.minus-zero", "-k", "dcp"], "leave -k out"),
        (["replay", "o_proj", "ranks=²,layers=3,steps=1,fragments=1", "0"], "gives no sizes of o_proj"),
        (["replay", "dependent_launch", "tp=4,batch=1,layers=2", "0"], "cannot be built of tp=4,batch=1,layers=2: tp=16"),
        (["replay", "split_k", "ranks=1,tiles=1,stages=0", "0"], "cannot be built of ranks=1,tiles=1,stages=0"),
        (["races", "--resume", "nowhere"], "no run record"),
        (["replay", "o_proj", "ranks=2", "0"], "'ranks=2' gives no sizes of o_proj"),
        (["replay", "o_proj", "ranks=2,layers=3,steps=1,fragments=1", "0x"], "'0x' is no step of a schedule"),
        (["replay", "o_proj", "ranks=2,layers=3,steps=1,fragments=1", "1!9"], "cannot go on so after 0 lines"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    more = ["--output", str(tmp_path)] if arguments[0] == "races" and "--resume" not in arguments else []
    with pytest.raises(InputError) as raised:
        run(*arguments, *more)
    assert said in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_another_question_is_not_resumed(tmp_path: Path) -> None:
    run(*SMALL, "--output", str(tmp_path))
    with pytest.raises(InputError, match=r"cannot resume .* with another walks: it was begun with 2"):
        run("races", "--resume", str(last(tmp_path)), "--walks", "3")


def test_a_run_that_is_killed_leaves_no_worker_that_holds_its_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "validate", "races", "-k", "small_batch", "-n", "1", "--output", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text():
            time.sleep(0.1)
        time.sleep(1.0)
        process.kill()
    time.sleep(1.0)
    with writer.alone(last(tmp_path)):
        pass
