"""Copies of vLLM's sources with faults."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from validate.paths.vllm import entries

Edit = Callable[[str, dict[str, str]], Path]


@pytest.fixture
def edited(tmp_path: Path, vllm_source: Path) -> Edit:
    """Makes a copy of vLLM's kernel files with replacements in one of them."""

    def edit(file: str, replacements: dict[str, str]) -> Path:
        shutil.copytree(vllm_source / entries.NVIDIA, tmp_path / entries.NVIDIA, ignore=shutil.ignore_patterns("__pycache__"))
        called = [*entries.DEFAULT.values(), *entries.SPECIALIZED.values()]
        beside = {entry.file for stage in called for entry in stage} | {"vllm/utils/math_utils.py"}
        beside.add("vllm/third_party/flash_linear_attention/ops/op.py")
        for name in (name for name in beside if not name.startswith(entries.NVIDIA)):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(vllm_source / name, tmp_path / name)
        text = (tmp_path / file).read_text()
        for old, new in replacements.items():
            assert old in text, old
            text = text.replace(old, new)
        (tmp_path / file).write_text(text)
        return tmp_path

    return edit
