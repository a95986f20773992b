"""vLLM's Python files: an installed vLLM, an unpacked wheel or a checkout. Nothing of vLLM is copied, built or installed.

An installed vLLM is imported as it is. From a folder, single modules are imported under their own names, without the
``__init__`` files of the packages above them, which import the engine. What the kernels' files import from the rest of
vLLM, and what a bare folder lacks (a compiled extension, the detection of the platform), is supplied by the stand-ins
below, and by nothing else:

- ``platforms``: CUDA as torch finds it, or, interpreted, neither CUDA nor vLLM's CPU build (its kernels are others);
- ``triton_utils``, ``logger``, ``_custom_ops`` (empty: no compiled kernels), ``model_executor.custom_op``;
- ``distributed``: a group of this process alone, whose all-reduce returns its argument;
- ``ir.op``: operators as the functions that define them, vLLM's native forms;
- names of the layers that the default path's files derive theirs from, or annotate with; none of them is called here;
- ``utils.torch_utils``: the current stream;
- ``v1.attention.backends.utils``: the null block's and the padded slot's numbers;
- ``model_executor.layers.mamba.mamba_utils``: the layout of KDA's convolution state, vLLM's default, which the file of the
  layers' providers imports;
- names that the KDA file imports for prefill, which is not run here, and, where FlashInfer cannot be imported, those that
  the split-K GEMM's file imports from it, so that files beside it can be imported: the GEMM itself is then refused.
"""

import hashlib
import importlib
import importlib.abc
import importlib.util
import logging
import operator
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from validate.errors import InputError

VERSION = "0.33.0"
FLA = "vllm.third_party.flash_linear_attention.ops"
PREFILL: dict[str, dict[str, Any]] = {
    "chunk_delta_h": {"chunk_gated_delta_rule_fwd_h": None},
    "cumsum": {"chunk_local_cumsum": None},
    "fused_recurrent": {"fused_recurrent_gated_delta_rule_fwd_kernel": None},
    "index": {"prepare_chunk_indices": None},
    "l2norm": {"l2norm_fwd": None},
    "solve_tril": {"solve_tril": None},
    "utils": {"FLA_CHUNK_SIZE": 64, "is_amd": False, "is_gather_supported": True},
}

# Names that the files of the default path's layers import. What they compute with, the adapters hand to them.
LAYERS: dict[str, tuple[str, ...]] = {
    "vllm.config": ("VllmConfig", "get_current_vllm_config"),
    "vllm.model_executor.determinism.batch_invariant": ("linear_batch_invariant",),
    "vllm.model_executor.layers.layernorm": ("RMSNorm",),
    "vllm.model_executor.layers.linear": (
        "LinearBase",
        "MergedColumnParallelLinear",
        "ReplicatedLinear",
        "UnquantizedLinearMethod",
    ),
    "vllm.model_executor.layers.logits_processor": ("LogitsProcessor",),
    "vllm.model_executor.layers.quantization": ("QuantizationConfig",),
    "vllm.model_executor.layers.quantization.base_config": (
        "QuantizationConfig",
        "QuantizeMethodBase",
        "method_has_implemented_embedding",
        "resolve_quant_method",
    ),
    "vllm.model_executor.layers.utils": ("dispatch_unquantized_gemm",),
    "vllm.model_executor.models.qwen3_dspark": ("DSparkConfidenceHead", "DSparkMarkovHead"),
    "vllm.model_executor.parameter": ("BasevLLMParameter",),
    "vllm.model_executor.utils": ("set_weight_attrs",),
    "vllm.models.common.ops.fused_allreduce_rms_norm": ("fused_allreduce_rms_norm",),
    "vllm.models.kimi_k3.nvidia.mla": ("MultiHeadLatentAttention",),
    "vllm.models.kimi_k3.nvidia.model": ("KimiMLP",),
}
DISTRIBUTED = (
    "GroupCoordinator",
    "get_tensor_model_parallel_rank",
    "get_tensor_model_parallel_world_size",
    "tensor_model_parallel_all_gather",
    "tensor_model_parallel_all_reduce",
    "tensor_model_parallel_gather",
)

SPLIT_K = "flashinfer.gemm.kernels.dense_bf16_gemm_sm100_splitk"
SPLIT_K_NAMES = ("OWNER_RANK", "SplitKTactic", "_store_shared_remote_v4")


class Source:
    """The files under ``root``, the folder that holds ``vllm/``. Of several in one process, one at a time is active."""

    _active: "Source | None" = None

    def __init__(self, root: Path, *, installed: bool = False, interpreted: bool = False) -> None:
        self.root, self.installed, self.interpreted = root, installed, interpreted
        self._modules: dict[str, ModuleType] = {}
        self._finder = _Finder(root)

    def module(self, name: str) -> ModuleType:
        """Imports ``vllm.<name>``. InputError says which file does not load."""
        self._activate()
        try:
            return importlib.import_module(f"vllm.{name}")
        except Exception as error:  # whatever importing vLLM's file, or all of an installed vLLM, comes to
            raise InputError(f"vllm/{name.replace('.', '/')}.py under {self.root} cannot be loaded: {error}") from error

    def version(self) -> tuple[str, str | None]:
        """The version and commit of vLLM: of the wheel, or of the checkout. Unknown parts are "unknown" and None."""
        file = self.root / "vllm/_version.py"
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        version = re.search(r"__version__ = version = '([^']+)'", text)
        commit = re.search(r"__commit_id__ = commit_id = '([^']+)'", text)
        return version[1] if version else "unknown", commit[1] if commit else _git_head(self.root)

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each of its files that is imported, 16 hex digits."""
        self._activate()
        names = {n: getattr(m, "__file__", None) for n, m in sys.modules.items() if n.partition(".")[0] == "vllm"}
        files = sorted(Path(file) for file in names.values() if file and Path(file).is_relative_to(self.root))
        return {str(f.relative_to(self.root)): hashlib.sha256(f.read_bytes()).hexdigest()[:16] for f in files}

    def _activate(self) -> None:
        if self.installed or Source._active is self:
            return
        others = {name: module for name, module in sys.modules.items() if name == "vllm" or name.startswith("vllm.")}
        if others and Source._active is None:
            raise InputError("vLLM is imported in this process: files of another folder are loaded only without it")
        modules = self._modules or _stand_ins(self.interpreted)
        for name in others:
            del sys.modules[name]
        if Source._active is not None:
            Source._active._modules = others
            sys.meta_path.remove(Source._active._finder)
        sys.meta_path.insert(0, self._finder)
        sys.modules.update(modules)
        Source._active = self


@cache
def opened(folder: Path | None, *, interpreted: bool = False) -> Source:
    """The files of vLLM in ``folder``, or those of the installed vLLM. InputError if there are none."""
    if folder is not None:
        if not (folder / "vllm").is_dir():
            raise InputError(f"no vLLM under {folder}: name the folder that holds vllm/ (an unpacked wheel or a checkout)")
        return Source(folder.resolve(), interpreted=interpreted)
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("vLLM is not installed: name an unpacked wheel or a checkout of it with --vllm-src")
    return Source(Path(spec.submodule_search_locations[0]).parent, installed=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds vLLM's modules under one folder; packages are empty."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "vllm":
            return None
        where = self._root / name.replace(".", "/")
        if where.is_dir():
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(where)]
            return spec
        file = where.with_suffix(".py")
        return importlib.util.spec_from_file_location(name, file) if file.is_file() else None


class _CustomOp:
    """vLLM's base class of ops with several implementations; here one of them is called by its function."""

    @staticmethod
    def register(name: str) -> Any:
        return lambda op: op


class _Alone:
    """A tensor-parallel group of one process."""

    world_size, rank_in_group = 1, 0

    def all_reduce(self, tensor: Any) -> Any:
        return tensor


class _Workspace:
    """Scratch memory: here allocated when it is asked for."""

    def get_simultaneous(self, *wanted: Any) -> Any:
        import torch

        return [torch.empty(shape, dtype=dtype) for shape, dtype in wanted]


def _stand_ins(interpreted: bool) -> dict[str, ModuleType]:
    contents: dict[str, dict[str, Any]] = {
        "vllm.platforms": {"current_platform": _platform(interpreted), "CpuArchEnum": None},
        "vllm.logger": {"init_logger": _logger},
        "vllm._custom_ops": {},
        "vllm.distributed": {**_names(DISTRIBUTED), "get_tp_group": _Alone, "divide": operator.floordiv},
        "vllm.ir.op": {"register_op": _register_op},
        "vllm.model_executor.custom_op": {"CustomOp": _CustomOp, "PluggableLayer": _CustomOp},
        "vllm.model_executor.layers.mamba.mamba_utils": {"is_conv_state_dim_first": lambda: False},
        "vllm.model_executor.layers.quantization.utils.fp8_utils": {"is_fp8": lambda dtype: False},
        **{module: _names(names) for module, names in LAYERS.items()},
        "vllm.utils.torch_utils": {"current_stream": _stream, "direct_register_custom_op": lambda **_: None},
        "vllm.model_executor.models.utils": {
            **_names(("AutoWeightsLoader", "get_draft_quant_config", "maybe_prefix")),
            "WeightsMapper": lambda **_: None,
        },
        "vllm.v1.kv_cache_interface": {"is_quantized_kv_cache": lambda dtype: dtype.startswith("fp8")},
        "vllm.v1.worker.workspace": {"current_workspace_manager": _Workspace},
        "vllm.v1.attention.backends.utils": {"NULL_BLOCK_ID": 0, "PAD_SLOT_ID": -1},
        **{f"{FLA}.{name}": names for name, names in PREFILL.items()},
    }
    if interpreted or importlib.util.find_spec("triton") is not None:
        contents["vllm.triton_utils"] = _triton(interpreted)
        if interpreted:
            tl = contents["vllm.triton_utils"]["tl"]
            # The interpreter replaces Triton's functions while a kernel runs, so these look them up when called.
            contents[f"{FLA}.op"] = {
                "exp": lambda x: tl.exp(x),
                "exp2": lambda x: tl.exp2(x),
                "log": lambda x: tl.log(x),
            }
    if not _importable("flashinfer"):
        contents |= {
            "flashinfer": {},
            "flashinfer.gemm": {},
            "flashinfer.gemm.kernels": {},
            SPLIT_K: dict.fromkeys(SPLIT_K_NAMES, _without_flashinfer),
        }
    modules = {}
    for name, attributes in contents.items():
        modules[name] = ModuleType(name)
        modules[name].__dict__.update(attributes)
    return modules


def _without_flashinfer(*_: object) -> None:
    raise InputError("the split-K GEMM takes parts of FlashInfer, which cannot be imported: install vLLM's flashinfer-python")


def _names(names: Sequence[str]) -> dict[str, Any]:
    """Empty classes, so that others may derive from them."""
    return {name: type(name, (), {}) for name in names}


def _register_op(op: Any = None, **_: bool) -> Any:
    """Of vLLM's intermediate representation: the operator is the function that it decorates."""
    if op is None:
        return _register_op
    op.register_input_generator = lambda generator: generator
    op.override_tolerance = lambda *_, **__: None
    return op


def _stream() -> Any:
    import torch

    return torch.cuda.current_stream()


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:  # not installed, or without what it depends on
        return False
    return True


def _triton(interpreted: bool) -> dict[str, Any]:
    if interpreted:
        importlib.import_module("validate.paths.vllm.interpreter")  # before anything imports Triton
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice

    return {"triton": triton, "tl": tl, "tldevice": libdevice, "HAS_TRITON": True}


def _platform(interpreted: bool) -> SimpleNamespace:
    import torch

    capability = (0, 0) if interpreted or not torch.cuda.is_available() else torch.cuda.get_device_capability()
    return SimpleNamespace(
        device_type="cpu" if interpreted else "cuda",
        is_cpu=lambda: False,
        simple_compile_backend="eager",
        is_cuda=lambda: not interpreted,
        is_cuda_alike=lambda: not interpreted,
        is_rocm=lambda: False,
        is_xpu=lambda: False,
        is_arch_support_pdl=lambda: capability[0] >= 9,
        is_device_capability=lambda wanted: wanted in (capability, capability[0] * 10 + capability[1]),
        has_device_capability=lambda wanted: capability[0] * 10 + capability[1] >= wanted,
        is_device_capability_family=lambda family: family == capability[0] * 10,
    )


def _logger(name: str) -> logging.Logger:
    logger = logging.getLogger(name)
    for level in ("debug", "info", "warning"):
        setattr(logger, f"{level}_once", lambda *_, **__: None)
    return logger


def _git_head(folder: Path) -> str | None:
    if not (folder / ".git").exists():  # it may lie in somebody else's repository
        return None
    try:
        done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
