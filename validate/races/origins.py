"""Which of vLLM's files each model was read from, and whether those of a checkout still are the same.

A model is written by hand. Of a kernel that has been changed since it says what the old one did, and its PASS is worth nothing.
``origins.json`` holds the digests of vLLM 0.33.0's files; ``python -m validate.races.origins VLLM`` prints those of another, for
whoever has read it again.
"""

import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

from validate.errors import InputError

NVIDIA = "vllm/models/kimi_k3/nvidia/specialized_decode"
FILES: Mapping[str, tuple[str, ...]] = {
    "split_k": ("cutedsl/gemm/splitk.py",),
    "kda_cluster": ("cutedsl/kda/kernel.py",),
    "dcp": ("cutedsl/mla/dcp.py", "cutedsl/mla/query.py", "runtime/providers.py"),
    "o_proj": ("cutedsl/oproj/prepared.py", "cutedsl/oproj/producer.py", "cutedsl/oproj/consumer.py"),
    "two_shot": ("cutedsl/common/twoshot.py", "cutedsl/oproj/producer.py", "cutedsl/oproj/consumer.py", "cutedsl/moe/tail.py"),
    "front": ("cutedsl/moe/front.py", "cutedsl/gemm/ws_gemm.py"),
    "placement": ("cutedsl/moe/small_batch/front_tp16.py",),
    "shared_experts": ("cutedsl/moe/shared.py",),
    "small_batch": ("cutedsl/moe/small_batch/chain.py", "cutedsl/oproj/consumer.py", "cutedsl/common/embedding.py"),
    "moe_tail": ("cutedsl/moe/tail_runtime.py", "cutedsl/moe/tail.py"),
    "experts": ("cutedsl/moe/experts.py",),
    "side_stream": ("cutedsl/moe/prepared.py", "runtime/prefetch.py"),
    "dependent_launch": (
        "cutedsl/attn_res/kernel.py",
        "cutedsl/gemm/splitk.py",
        "cutedsl/kda/kernel.py",
        "cutedsl/moe/front.py",
        "cutedsl/moe/tail.py",
        "cutedsl/oproj/consumer.py",
        "cutedsl/oproj/producer.py",
    ),
    "plan": ("runtime/decode.py", "cutedsl/moe/tail_runtime.py"),
}


def files(folder: Path | None) -> Path | None:
    """What holds vllm/: the folder (InputError if it does not), else where a vLLM with the specialized decode is installed."""
    if folder is not None:
        if not (folder / "vllm").is_dir():
            raise InputError(f"no vLLM under {folder}: name the folder that holds vllm/ (an unpacked wheel or a checkout)")
        return folder
    installed = importlib.util.find_spec("vllm")
    places = installed.submodule_search_locations if installed else None
    return next((Path(place).parent for place in places or () if (Path(place).parent / NVIDIA).is_dir()), None)


def moved(root: Path, protocols: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Of these protocols the files under ``root``, which holds vllm/, that are gone or not as they were read, if any."""
    known = json.loads(resources.files("validate.races").joinpath("origins.json").read_text(encoding="utf-8"))
    found = {name: tuple(file for file in FILES[name] if _digest(root, file) != known[file]) for name in protocols}
    return {name: files for name, files in found.items() if files}


def version(root: Path) -> str:
    """Of the vLLM under ``root``, as its build wrote it; "unknown" of a checkout that was not built."""
    file = root / "vllm/_version.py"
    found = re.search(r"__version__ = version = '([^']+)'", file.read_text(encoding="utf-8")) if file.is_file() else None
    return found[1] if found else "unknown"


def digests(root: Path) -> dict[str, str | None]:
    """Of every file that a model was read from; None of one that is not there."""
    return {file: _digest(root, file) for file in sorted({file for files in FILES.values() for file in files})}


def _digest(root: Path, file: str) -> str | None:
    try:
        return hashlib.sha256((root / NVIDIA / file).read_bytes()).hexdigest()[:16]
    except OSError:
        return None


if __name__ == "__main__":
    print(json.dumps(digests(Path(sys.argv[1])), indent=2))
