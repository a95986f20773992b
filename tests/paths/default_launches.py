"""Prints the CuTe kernels that the default path's linear layers launch on a GPU of some architecture, over meta tensors.

``python -m tests.paths.default_launches VLLM sm_90a 8 'latent_down/ and batch1-'``: by case, kernels, and differing operands.
"""

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from validate.kernels.deployment import Deployment
from validate.kernels.launches import Watch
from validate.numerics import judge, selection
from validate.paths.vllm import ADAPTERS, entries, source
from validate.profiles import load


def main(folder: str, arch: str, tp: str, keyword: str) -> None:
    files = source.opened(Path(folder))
    files.module(entries.module_of(entries.LOW_LATENCY))  # before streams are stood in for: it annotates with them
    watch = Watch(files, arch)
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    digits = arch.removeprefix("sm_").rstrip("a")
    major, number = int(digits[:-1]), int(digits)
    platform: Any = files.module("platforms")
    platform.current_platform.is_device_capability = lambda wanted: wanted in ((major, number % 10), number)
    platform.current_platform.has_device_capability = lambda wanted: number >= wanted
    accelerator: Any = torch.accelerator
    accelerator.current_device_index = lambda: None  # as meta tensors have none
    profile = load(f"gb300-tp{tp}")
    for case in selection.select(judge.cases(profile), keyword):
        (adapter,) = ADAPTERS["default"][case.stage]
        with patch.object(torch.Tensor, "is_cuda", True):
            launches = watch.launches(adapter, judge.build(case), Deployment(int(tp), 1, False, profile.batches))
        print(case.id, *sorted({launch.kernel for launch in launches}), "|", *(d for one in launches for d in one.differences))


if __name__ == "__main__":
    main(*sys.argv[1:])
