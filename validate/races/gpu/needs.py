"""What the trials take from this machine: a GPU that they are made for, vLLM's files, and the compiler."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from validate.errors import InputError

if TYPE_CHECKING:
    from validate.paths.vllm.source import Source

CAPABILITY = (9, 0)


def gpu() -> str:
    """The name of this machine's GPU. InputError if it is none that the trials are made for."""
    import torch

    wanted = "the races on a GPU run vLLM's kernels on one of compute capability 9.0 (H100, H200)"
    if not torch.cuda.is_available():
        raise InputError(f"{wanted}, and torch finds none here")
    capability = torch.cuda.get_device_capability()
    if capability != CAPABILITY:
        raise InputError(f"{wanted}; the {torch.cuda.get_device_name()} here has {capability[0]}.{capability[1]}")
    return torch.cuda.get_device_name()


def opened(vllm_src: Path | None) -> "Source":
    """VLLM's files, installed or in a folder. InputError if there are none, or other ones."""
    from validate.paths import vllm
    from validate.paths.vllm import source

    found = source.opened(vllm_src)
    vllm.check(["specialized"], found)
    if importlib.util.find_spec("cutlass") is None:
        raise InputError("nvidia-cutlass-dsl, which compiles vLLM's kernels, is not installed: pip install -e '.[build]'")
    return found
