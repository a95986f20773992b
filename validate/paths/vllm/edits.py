"""Copies of vLLM's kernel files with changes in them: faults to be found, delays that open a window."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from validate.paths.vllm import entries

# What vLLM's kernel files import from outside their folder, and no adapter calls.
BESIDE = {
    "vllm/envs.py",
    "vllm/model_executor/kernels/linear/cute_dsl/_ll_router_common.py",
    "vllm/model_executor/kernels/linear/cute_dsl/ll_bf16.py",
    "vllm/model_executor/kernels/linear/cute_dsl/skinny_gemm.py",
    "vllm/third_party/flash_linear_attention/ops/op.py",
    "vllm/utils/collection_utils.py",
    "vllm/utils/math_utils.py",
    "vllm/utils/multi_stream_utils.py",
}


class Moved(ValueError):
    """A text that is to be replaced is not in vLLM's file."""


@dataclass(frozen=True)
class Change:
    """Replacements in one of vLLM's files. ``replacements``: each text becomes another wherever it stands."""

    file: str
    replacements: Mapping[str, str] = field(hash=False)


def copied(root: Path, there: Path, *changes: Change) -> Path:
    """``there``, with what the adapters import of the vLLM under ``root``, changed. ``Moved`` where vLLM's text is another."""
    shutil.copytree(root / entries.NVIDIA, there / entries.NVIDIA, ignore=shutil.ignore_patterns("__pycache__"))
    called = [*entries.DEFAULT.values(), *entries.SPECIALIZED.values()]
    beside = {entry.file for stage in called for entry in stage} | BESIDE
    for name in (name for name in beside if not name.startswith(entries.NVIDIA)):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, there / name)
    for change in changes:
        text = (there / change.file).read_text(encoding="utf-8")
        for old, new in change.replacements.items():
            if old not in text:
                raise Moved(f"{change.file} has no '{old}'")
            text = text.replace(old, new)
        (there / change.file).write_text(text, encoding="utf-8")
    return there
