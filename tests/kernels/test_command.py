"""``python -m validate build``: what it refuses, that it passes on the original, and that it remembers."""

import os
from pathlib import Path

import pytest

from tests.support import Tool
from validate.kernels import needs

ONE = ("build", "--arch", "sm_103a", "-n", "1", "-k", "dense_mlp/", "--cache", "cache")


def test_what_is_refused(tool: Tool, tmp_path: Path) -> None:
    assert "--vllm-src" in _without_sources(tool).refused("build")
    assert "no vLLM under" in tool.refused("build", "--vllm-src", str(tmp_path))
    assert "unknown architecture sm_90a" in tool.refused("build", "--vllm-src", str(tmp_path), "--arch", "sm_90a")


def test_the_original_passes_and_is_remembered(tool: Tool, vllm_source: Path, tmp_path: Path) -> None:
    if needs.missing():
        pytest.skip(f"the compiler is not installed: {', '.join(needs.missing())}")
    first = tool(*ONE, "--vllm-src", str(vllm_source))
    assert first.returncode == 0, first.stdout + first.stderr
    assert "2 variants, 0 known, 2 to compile" in first.stdout
    report = next(tmp_path.glob("runs/*-build-cpu/build.md")).read_text()
    assert report.startswith("# PASS: build")
    assert "| dense_mlp/DenseSitu | 2 | 2 | 0 |" in report
    again = tool(*ONE, "--vllm-src", str(vllm_source))
    assert "2 variants, 2 known, 0 to compile" in again.stdout
    tool.environment["PYTHONPATH"] += f"{os.pathsep}{vllm_source}"
    installed = _without_sources(tool)(*ONE)
    assert "2 variants, 2 known, 0 to compile" in installed.stdout, installed.stderr
    assert "selects none" in tool.refused(*ONE[:6], "no such kernel", *ONE[7:], "--vllm-src", str(vllm_source))


def _without_sources(tool: Tool) -> Tool:
    tool.environment.pop("K3_PARITY_VLLM_SRC", None)
    return tool
