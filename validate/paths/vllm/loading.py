"""vLLM's kernel files, loaded from an unpacked wheel or a source checkout. Nothing of vLLM is copied or installed.

A file is executed as a module of its own. What it imports from vLLM is compiled, or looks for a GPU, so it finds
stand-ins: modules that ``sys.modules`` holds only while a file is executed. They supply

- ``platforms``: no programmatic dependent launch, no compiled kernels, not vLLM's CPU build (its kernels are others);
- ``triton_utils``, ``utils.math_utils``: Triton itself and two integer functions;
- ``third_party.flash_linear_attention.ops.op``: exp and log. The interpreter replaces Triton's functions while a kernel
  runs, so these look them up when called;
- names that are imported for other platforms or callers than the kernels here.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from validate.errors import InputError


@dataclass(frozen=True)
class Entry:
    """A function of vLLM 0.33.0 that is called here: its file and the parameters that it must have."""

    file: str
    name: str
    parameters: tuple[str, ...]


KDA = "vllm/models/kimi_k3/nvidia/ops/third_party/kda/fused_recurrent.py"
CONVOLUTION = "vllm/model_executor/layers/mamba/ops/causal_conv1d.py"
GATED_NORM = "vllm/third_party/flash_linear_attention/ops/kda.py"  # nvidia/kda.py imports FusedRMSNormGated from it
ATTN_RES = "vllm/models/kimi_k3/nvidia/ops/attn_res.py"
ENTRIES = {
    "convolve": Entry(
        CONVOLUTION,
        "causal_conv1d_update",
        (
            *("x", "conv_state", "weight", "bias", "activation", "conv_state_indices", "num_accepted_tokens"),
            *("query_start_loc", "max_query_len", "out"),
        ),
    ),
    "decode": Entry(
        KDA,
        "fused_recurrent_kda_packed_decode",
        (
            *("mixed_qkv", "raw_g", "raw_beta", "A_log", "dt_bias", "lower_bound", "initial_state"),
            *("state_indices", "out"),
        ),
    ),
    "verify": Entry(
        KDA,
        "fused_recurrent_kda",
        (
            *("q", "k", "v", "raw_g", "raw_beta", "A_log", "dt_bias", "lower_bound", "initial_state", "cu_seqlens"),
            *("ssm_state_indices", "num_accepted_tokens", "out"),
        ),
    ),
    "gated_norm": Entry(GATED_NORM, "rms_norm_gated", ("x", "g", "weight", "bias", "activation", "eps")),
    "attn_res": Entry(
        ATTN_RES,
        "attn_res",
        (
            *("prefix", "delta", "blocks", "norm_weight", "qk_weight", "output_norm_weight", "num_blocks"),
            *("block_write_idx", "eps", "output_norm_eps"),
        ),
    ),
}

# What kda.py imports for prefill, which is not run here.
PREFILL: dict[str, dict[str, Any]] = {
    "chunk_delta_h": {"chunk_gated_delta_rule_fwd_h": None},
    "cumsum": {"chunk_local_cumsum": None},
    "fused_recurrent": {"fused_recurrent_gated_delta_rule_fwd_kernel": None},
    "index": {"prepare_chunk_indices": None},
    "l2norm": {"l2norm_fwd": None},
    "solve_tril": {"solve_tril": None},
    "utils": {"FLA_CHUNK_SIZE": 64, "is_amd": False},
}


class _CustomOp:
    """vLLM's base class of ops with several implementations; here the Triton one is called by its function."""

    @staticmethod
    def register(name: str) -> Callable[[type], type]:
        return lambda op: op


@dataclass(frozen=True)
class Kernels:
    """The launchers, by what they do."""

    convolve: Callable[..., Any]
    decode: Callable[..., Any]
    verify: Callable[..., Any]
    gated_norm: Callable[..., Any]
    attn_res: Callable[..., Any]


@cache
def load(root: Path) -> Kernels:
    """The kernels under ``root``, the folder that holds ``vllm/``. InputError if they are not those of 0.33.0."""
    if "vllm" in sys.modules:
        raise InputError("vLLM is imported in this process: its kernel files are loaded beside it only without it")
    missing = sorted({e.file for e in ENTRIES.values() if not (root / e.file).is_file()})
    if missing:
        raise InputError(f"no vLLM 0.33.0 under {root}: there is no {missing[0]}")
    importlib.import_module("validate.paths.vllm.interpreter")  # before anything imports Triton
    modules = {file: _execute(root / file) for file in dict.fromkeys(e.file for e in ENTRIES.values())}
    return Kernels(**{name: _function(modules[entry.file], entry) for name, entry in ENTRIES.items()})


def _function(module: ModuleType, entry: Entry) -> Callable[..., Any]:
    function = getattr(module, entry.name, None)
    if function is None:
        raise InputError(f"not vLLM 0.33.0: {entry.file} has no {entry.name}")
    found = inspect.signature(function).parameters
    lacking = [name for name in entry.parameters if name not in found]
    if lacking:
        raise InputError(f"not vLLM 0.33.0: {entry.name} in {entry.file} takes no {', '.join(lacking)}")
    return function


def _execute(path: Path) -> ModuleType:
    name = f"vllm.third_party.flash_linear_attention.ops.{path.stem}"  # the package of its relative imports
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _stand_ins():
        try:
            spec.loader.exec_module(module)
        except (ImportError, AttributeError, SyntaxError) as error:
            raise InputError(f"not vLLM 0.33.0: {path} cannot be loaded: {error}") from error
    return module


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Puts the stand-ins into ``sys.modules`` and takes them out again."""
    modules = _modules()
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]


def _modules() -> dict[str, ModuleType]:
    import triton
    import triton.language as tl

    platform = SimpleNamespace(
        is_arch_support_pdl=lambda: False,
        is_cpu=lambda: False,
        is_device_capability_family=lambda family: False,
    )
    contents: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm._custom_ops": {},
        "vllm.platforms": {"current_platform": platform},
        "vllm.triton_utils": {"triton": triton, "tl": tl},
        "vllm.utils": {},
        "vllm.utils.math_utils": {"cdiv": triton.cdiv, "next_power_of_2": triton.next_power_of_2, "RCP_LN2": None},
        "vllm.model_executor": {},
        "vllm.model_executor.custom_op": {"CustomOp": _CustomOp},
        "vllm.third_party": {},
        "vllm.third_party.flash_linear_attention": {},
        "vllm.third_party.flash_linear_attention.ops": {},
        "vllm.third_party.flash_linear_attention.ops.op": {
            "exp": lambda x: tl.exp(x),
            "exp2": lambda x: tl.exp2(x),
            "log": lambda x: tl.log(x),
        },
        **{f"vllm.third_party.flash_linear_attention.ops.{name}": names for name, names in PREFILL.items()},
        "vllm.v1": {},
        "vllm.v1.attention": {},
        "vllm.v1.attention.backends": {},
        "vllm.v1.attention.backends.utils": {"NULL_BLOCK_ID": 0, "PAD_SLOT_ID": -1},
    }
    modules = {}
    for name, attributes in contents.items():
        modules[name] = ModuleType(name)
        modules[name].__dict__.update(attributes, __path__=[])
    modules["vllm"].__dict__["_custom_ops"] = modules["vllm._custom_ops"]
    return modules
