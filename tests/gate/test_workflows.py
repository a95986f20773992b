"""The workflows that people copy: they parse, what they call exists, artifacts are kept before a verdict is applied."""

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.support import ROOT, Tool
from validate import cli, toml_files
from validate.gate.profile import PROFILES

yaml = pytest.importorskip("yaml")

FOLDER = ROOT / "docs" / "workflows"
SLURM = FOLDER / "gate.slurm.sh"
FAKES = {
    "python": """
echo "python $*" >> calls
case "$*" in
  *"validate gate gb300-tp"*)
    while [ "$1" != --output ]; do shift; done
    mkdir -p "$2/1-gate-gb300-tp16"
    echo "# a summary" > "$2/1-gate-gb300-tp16/summary.md" ;;
  *--commands*) for n in 0 1 2 3 4 5 6 7; do echo "A=1 vllm serve line$n"; echo "# another line"; done; exit 0 ;;
esac
codes=$(cat codes)
echo "${codes#* }" > codes
exit "${codes%% *}"
""",
    "srun": """
echo "srun $*" >> calls
[ -e dead ] && exit 1
trap 'rm up; [ -e gate-artifacts/7/exit-code ] && echo kept >> calls; echo "srun ends" >> calls; exit 0' TERM
touch up
while true; do sleep 0.1; done
""",
    "scontrol": "echo head; echo other",
    "curl": "until [ -e up ]; do [ -e dead ] && exit 7; sleep 0.05; done",
    "servers": """
echo "servers $*" >> calls
[ -e dead ] && exit 1
[ "$1" = stop ] || printf 'DEFAULT_URL=http://d:1\\nSPECIALIZED_URL=http://s:1\\nK3_PARITY_IMAGE=sha256:1\\n'
""",
    "buildkite-agent": 'echo "buildkite-agent $1 $2" >> calls; cat > /dev/null',
}


class Shell:
    """Runs scripts among commands that only note how they are called; ``codes`` are those of ``python -m validate gate``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in FAKES.items():
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/bash\n{text}")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, script: str, codes: str = "0", **environment: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "codes").write_text(f"{codes} ")
        there = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", **environment}
        return subprocess.run(["bash", "-c", script], cwd=self.folder, env=there, capture_output=True, text=True, timeout=60)

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def github() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = yaml.safe_load((FOLDER / "gate.github.yml").read_text())["jobs"]["gate"]["steps"]
    return steps


def buildkite() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = yaml.safe_load((FOLDER / "gate.buildkite.yml").read_text())["steps"]
    return steps


def of_shell() -> dict[str, str]:
    """All shell parts."""
    found = {f"github {step['name']}": step["run"] for step in github() if "run" in step}
    found |= {f"buildkite {step['label']}": step["command"].replace("$$", "$") for step in buildkite()}
    return found | {"slurm": SLURM.read_text()}


@pytest.mark.parametrize("part", of_shell())
def test_the_shell_takes_it(part: str) -> None:
    done = subprocess.run(["bash", "-n"], input=of_shell()[part], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_exists() -> None:
    commands = get_command(cli.app).commands
    texts = [path.read_text() for path in sorted(FOLDER.iterdir())] + [(ROOT / "docs" / "gate.md").read_text()]
    typed = [found for text in texts for found in re.findall(r"python -m validate ((?:\\\n|[^\n`|])*)", text)]
    assert len(typed) == 11
    for line in typed:
        name, *words = line.replace("\\\n", " ").split()
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert {word.strip("\"',") for word in words if word.startswith("--")} <= known, line
    profiles = {name for text in texts for name in re.findall(r"(?:validate gate|-s gate --) (?!--|mine|gb300-tp\*)(\S+)", text)}
    assert profiles - {'"$@"'} <= set(toml_files.names(PROFILES))


@pytest.mark.parametrize("name", ["gate", "evals", "equivalence", "bless"])
def test_help(tool: Tool, name: str) -> None:
    assert tool(name, "--help").returncode == 0


def test_artifacts_are_kept_before_a_verdict_is_applied() -> None:
    names = [step.get("name", step.get("uses")) for step in github()]
    assert names[-6:] == ["Servers", "Gate", "Summary", "Artifacts", "Stop", "Verdict"]
    assert all(step["if"] == "always()" for step in github()[-4:])
    gate, verdict = buildkite()
    assert gate["artifact_paths"] == "gate-runs/**/*"
    assert verdict["depends_on"] == gate["key"]
    assert verdict["allow_dependency_failure"]


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_github(shell: Shell, code: int) -> None:
    servers, gate, summary, _, stop, verdict = (step.get("run", "") for step in github()[-6:])
    there = {"OUT": "runs", "GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "shown"}
    assert shell.run(servers, SERVERS="servers", COMMIT="abc", GITHUB_ENV="env").returncode == 0
    options = dict(line.split("=") for line in (shell.folder / "env").read_text().splitlines())
    assert options.pop("K3_PARITY_IMAGE") == "sha256:1"
    options = options | {"SPECIALIZED_URL": "", "OVER_RANKS": "srun torchrun"}
    assert shell.run(f"set -eo pipefail\n{gate}", str(code), **there, **options).returncode == 0
    assert shell.run(stop, SERVERS="servers").returncode == 0
    assert shell.calls() == [
        "servers start abc",
        "python -m validate gate gb300-tp8 --output runs --default-url http://d:1 --specialized-url  --over-ranks srun torchrun",
        "servers stop",
    ]
    assert shell.run(f"set -eo pipefail\n{summary}", **there).returncode == 0
    assert (shell.folder / "shown").read_text() == "# a summary\n"
    said = (shell.folder / "output").read_text().strip().removeprefix("code=")
    assert shell.run(verdict, CODE=said).returncode == code
    assert shell.run(verdict, CODE="").returncode == 3  # the gate's step was cancelled


@pytest.mark.parametrize("code", [0, 1, 3])
def test_buildkite(shell: Shell, code: int) -> None:
    gate, verdict = (step["command"].replace("$$", "$") for step in buildkite())
    given = {"SERVERS": "servers", "VLLM_COMMIT": "abc", "OVER_RANKS": "srun torchrun"}
    assert shell.run(gate, str(code), **given).returncode == 0
    first, asked, *others = shell.calls()
    assert (first, others) == ("servers start abc", ["buildkite-agent annotate --context", "servers stop"])
    assert "--default-url http://d:1 --specialized-url http://s:1 --over-ranks srun torchrun" in asked
    assert shell.run(verdict).returncode == code


def test_buildkite_without_servers_proves_nothing(shell: Shell) -> None:
    (shell.folder / "dead").touch()
    gate, verdict = (step["command"].replace("$$", "$") for step in buildkite())
    assert shell.run(gate, SERVERS="servers", VLLM_COMMIT="abc", OVER_RANKS="").returncode == 0
    assert shell.calls() == ["servers start abc", "servers stop"]
    assert shell.run(verdict).returncode == 3


def slurm(shell: Shell, codes: str, **environment: str) -> int:
    there = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[0-3]", "PATIENCE": "20", "K3_PARITY_IMAGE": "sha256:1", **environment}
    return shell.run(SLURM.read_text(), codes, **there).returncode


@pytest.mark.parametrize("code", [0, 2, 3])
def test_slurm_calls_the_gate_three_times(shell: Shell, code: int) -> None:
    assert slurm(shell, f"3 3 {code}") == code
    out = shell.folder / "gate-runs" / "7"
    calls = [call for call in shell.calls() if "--commands" not in call]
    run, url = f"{out}/1-gate-gb300-tp16", "http://head:8000"
    first, *others = [call for call in calls if call.startswith("python")]
    assert first.startswith(f"python -m validate gate gb300-tp16 --output {out} --over-ranks srun --overlap")
    default, specialized = (f"python -m validate gate --resume {run} --{arm}-url {url}" for arm in ("default", "specialized"))
    assert others == [default, specialized]
    servers = [call.rpartition("/")[2] for call in calls if call.startswith("srun --overlap")]
    assert servers == ["default.'$SLURM_NODEID.sh", "specialized.'$SLURM_NODEID.sh"]
    assert calls.index("srun ends") == calls.index(default) + 1  # one has ended before the other is started
    assert calls[-2:] == ["kept", "srun ends"]  # artifacts first: a server may not end
    served = {path.name: path.read_text() for path in out.glob("*.sh")}
    expected = {
        f"{arm}.{node}.sh": f"A=1 vllm serve line{first + node}\n"
        for arm, first in (("default", 0), ("specialized", 4))
        for node in range(4)
    }
    assert served == expected
    kept = shell.folder / "gate-artifacts" / "7"
    assert (kept / "exit-code").read_text() == f"{code}\n"
    assert (kept / "1-gate-gb300-tp16" / "summary.md").exists()


def test_slurm_wants_to_know_the_image(shell: Shell) -> None:
    assert slurm(shell, "0", K3_PARITY_IMAGE="") == 3
    assert not (shell.folder / "calls").exists()


def test_slurm_starts_no_server_behind_a_defect(shell: Shell) -> None:
    assert slurm(shell, "1") == 1
    assert not [call for call in shell.calls() if call.startswith("srun")]
    assert (shell.folder / "gate-artifacts" / "7" / "exit-code").read_text() == "1\n"


def test_slurm_says_which_server_does_not_come(shell: Shell) -> None:
    (shell.folder / "dead").touch()
    assert slurm(shell, "3") == 3
    assert (shell.folder / "gate-artifacts" / "7" / "exit-code").read_text() == "3\n"
