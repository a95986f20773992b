"""``--dry-run`` as it is called."""

import shutil
from pathlib import Path

import pytest

from tests.support import Tool
from validate.paths.vllm import entries


@pytest.fixture
def renamed(tmp_path: Path, vllm_source: Path) -> Path:
    """vLLM's files of another version: three entry points have moved."""
    for path in (entries.DEFAULT, entries.SPECIALIZED):
        for entry in (entry for stage in path.values() for entry in stage):
            (tmp_path / entry.file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(vllm_source / entry.file, tmp_path / entry.file)
    (tmp_path / "vllm/_version.py").write_text("__version__ = version = '0.34.0'\n")
    moved = [(entries.KDA, "raw_beta", "beta"), (entries.ATTN_RES, "def attn_res(", "def mix(")]
    moved.append((entries.PREPARED_KDA, "def prepare_caches(", "def bind("))
    for file, old, new in moved:
        (tmp_path / file).write_text((tmp_path / file).read_text().replace(old, new))
    return tmp_path


def test_gb300_resolves_on_any_machine(tool: Tool) -> None:
    tool.environment.pop("K3_PARITY_VLLM_SRC", None)
    done = tool("numerics", "--profile", "gb300-tp16", "--dry-run", "-k", "batch1-")
    assert done.returncode == 0, done
    assert done.stderr == ""
    assert "vLLM is not installed here" in done.stdout
    kda = next(line for line in done.stdout.splitlines() if line.startswith("kda/tp16-batch1-q1-regime1/trained/s0"))
    assert kda.endswith("1 rank, 2.2 MiB a rank, state float32 5x6x128x128; vllm-default, vllm-specialized"), kda
    o_proj = next(line for line in done.stdout.splitlines() if line.startswith("o_proj/tp16-batch1-"))
    assert "16 ranks, " in o_proj
    assert o_proj.endswith("; vllm-default, vllm-specialized"), o_proj
    tail = next(line for line in done.stdout.splitlines() if line.startswith("moe_tail/tp16-batch1-"))
    assert "; vllm-specialized; not vllm-default: LatentMoETail needs all ranks' symmetric memory" in tail, tail
    heading = next(line for line in done.stdout.splitlines() if "MiB a rank" in line and "largest tensor" in line)
    assert done.stdout.index(kda) < done.stdout.index(o_proj) < done.stdout.index(heading) < done.stdout.index("node 0: ")
    assert "over 16 ranks, a process a GPU" in done.stdout
    assert "every node: torchrun --nnodes 4 --nproc-per-node 4 " in done.stdout
    assert not list(tool.cwd.iterdir())


def test_vllm_is_imported_where_it_is_named(tool: Tool, vllm_source: Path) -> None:
    done = tool("numerics", "--profile", "gb300-tp8", "--dry-run", "--vllm-src", str(vllm_source), "-k", "kda and batch1-q1")
    assert done.returncode == 0, done
    assert "the entry points are those that the adapters call" in done.stdout
    assert "modules of vLLM imported" in done.stdout or "not installed here" in done.stdout


def test_another_version_is_refused_by_a_line_for_each_difference(tool: Tool, renamed: Path) -> None:
    done = tool("numerics", "--profile", "gb300-tp16", "--dry-run", "--vllm-src", str(renamed), "-k", "kda")
    assert done.returncode == 3, done
    lines = done.stderr.splitlines()
    assert lines[0] == "error: vLLM's entry points are not those that the adapters call:"
    assert lines[1] == "vLLM is 0.34.0, the adapters are written for 0.33.0"
    assert any(line.startswith(f"{entries.KDA}: fused_recurrent_kda takes no raw_beta, but ") for line in lines)
    assert f"{entries.ATTN_RES}: there is no attn_res" in lines
    assert f"{entries.PREPARED_KDA}: there is no PreparedKda.prepare_caches" in lines
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("other", [("--faults",), ("--plant", "kda.gate-before-norm"), ("--resume", "nowhere")])
def test_what_would_run_something_is_refused_beside_it(tool: Tool, other: tuple[str, ...]) -> None:
    assert "--dry-run takes none of" in tool.refused("numerics", "--dry-run", *other)
