"""Records made by hand, for tests that need no stage to run; the command line; and vLLM's sources."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support import Edit, Tool, line
from validate import profiles
from validate.paths.vllm.edits import Change, copied
from validate.records import folder as records
from validate.records.model import Arguments, Line, Machine, Manifest

# The commands that the suite prints begin with python where that is this interpreter.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
torch.set_num_threads(1)  # a test process a core: more threads would wait for each other


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


@pytest.fixture(scope="session")
def vllm_source() -> Path:
    """The folder that holds ``vllm/`` of version 0.33.0; nox -s tests downloads it."""
    root = os.environ.get("K3_PARITY_VLLM_SRC")
    if not root:
        pytest.skip("vLLM's source is not at hand: set K3_PARITY_VLLM_SRC to an unpacked wheel of 0.33.0")
    return Path(root)


@pytest.fixture
def edited(tmp_path: Path, vllm_source: Path) -> Edit:
    """Makes a copy of vLLM's kernel files with replacements in one of them."""

    def edit(file: str, replacements: dict[str, str]) -> Path:
        return copied(vllm_source, tmp_path, Change(file, replacements))

    return edit


@pytest.fixture
def make_line() -> Callable[..., Line]:
    return line


@pytest.fixture
def manifest() -> Manifest:
    """Of a run of two planned cases that has not ended."""
    profile = profiles.load("cpu")
    return Manifest(
        arguments=Arguments(seeds=1),
        profile=profile,
        runs_on="emulated",
        subjects=profile.subjects,
        stages=("kda",),
        planned=2,
        versions={"python": "3.11"},
        source="0" * 16,
        commit=None,
        dirty=None,
        machine=Machine(system="Linux", cpu="a CPU", cores=2, memory_gib=8.0),
        start="2026-01-01T00:00:00Z",
    )


@pytest.fixture
def record(tmp_path: Path, manifest: Manifest) -> Path:
    """The folder of that run, with one case of two subjects measured."""
    folder = records.create(tmp_path / "runs", "cpu")
    records.write_manifest(folder, manifest)
    records.write_lines(folder / records.MEASUREMENTS, [line(), line(subject="emulated-specialized", figure=2.0)])
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``engine`` need vLLM, which only the session ``engine_tests`` installs."""
    if importlib.util.find_spec("vllm") is None:
        for item in items:
            if item.get_closest_marker("engine"):
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed"))
