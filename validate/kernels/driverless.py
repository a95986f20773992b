"""What vLLM's specialized decode needs from a GPU, a driver and other ranks while it only compiles: stand-ins.

vLLM's own ``SpecializedDecode`` is built over a model of meta tensors, so the kernels that it compiles are the ones that a
deployment compiles, chosen by vLLM's own tables. What is stood in for does not reach a kernel's code: streams and events,
function attributes and residency, TMA descriptors, symmetric memory, tensor views for launches. Three things do reach it
and are decided here: the number of SMs, the shared memory of one, and the architecture.

The stand-ins change torch, the driver's bindings and vLLM's modules for the whole process: a worker process, no other.
"""

import contextlib
import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from validate.kernels.deployment import Deployment
from validate.model.gpu import SMS
from validate.paths.vllm.source import Source

SM_SHARED_BYTES = 228 * 1024  # of compute capability 10.0 and 10.3 (CUDA C++ Programming Guide, technical specifications)
# Few files of each are read; their packages' __init__ import much that is not needed.
BARE = ("flashinfer", "quack", "tokenspeed_mla")
DECODE = "models.kimi_k3.nvidia.specialized_decode"
CUTEDSL = f"{DECODE}.cutedsl"
RECOVER_SSM = "models.kimi_k3.nvidia.recoverssm.kernels"


class _Anything:
    """A stream, an event, a tensor's view: whatever is asked of it, there is another, and it does nothing."""

    def __getattr__(self, name: str) -> "_Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> "_Anything":
        return self


class _Grid(_Anything):
    """A Triton kernel."""

    def __getitem__(self, grid: object) -> _Anything:
        return self


ANYTHING = _Anything()


class _Stream(_Anything):
    cuda_stream = 0


class _Bare(MetaPathFinder):
    """Finds single files of installed packages without running the packages' ``__init__``."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in BARE:
            return None
        found = PathFinder.find_spec(name, path)
        if found is None or not found.submodule_search_locations:
            return found
        package = ModuleSpec(name, None, is_package=True)
        package.submodule_search_locations = list(found.submodule_search_locations)
        return package


def prepare(source: Source, arch: str, view: Any = ANYTHING) -> ModuleType:
    """Puts the stand-ins in place. Returns vLLM's runtime/decode.py, whose ``SpecializedDecode`` can then be built.

    ``view`` stands for ``to_cute``, vLLM's views of tensors for launches: meta tensors have none.
    """
    sys.meta_path.insert(0, _Bare())
    _torch(arch)
    _compiler()
    primitives: Any = source.module("models.kimi_k3.nvidia.ops.cute_dsl.latent_moe_tail.primitives")
    primitives.to_cute = view
    _engine()
    _cores()
    host: Any = source.module(f"{CUTEDSL}.common.host")
    host.tensor_maps = lambda specs, device: torch.empty(128 * len(specs), dtype=torch.uint8, device="meta")
    host.check_residency = lambda *_, **__: None
    host.prepare_shared_carveout = lambda compiled, *_: compiled
    host.resolve_kernel = lambda *_: (None, None)
    placement: Any = source.module(f"{CUTEDSL}.moe.small_batch.front_tp16")
    placement.initialize_designated = lambda table: _probes(placement)
    tail: Any = source.module(f"{CUTEDSL}.moe.tail_runtime")
    tail.resident_clusters = lambda device: 7
    source.module(RECOVER_SSM)
    providers: Any = source.module(f"{DECODE}.runtime.providers")
    providers.shape_dynamic_skinny_gemm = _skinny(providers.shape_dynamic_skinny_gemm)
    return source.module(f"{DECODE}.runtime.decode")


def compile_recover_ssm(deployment: Deployment) -> None:
    """What a layer of KDA compiles for RecoverSSM (models/kimi_k3/nvidia/kda.py), without and with prefix caching."""
    kernels: Any = importlib.import_module(f"vllm.{RECOVER_SSM}")
    device = torch.device("meta")
    for first in (False, True):
        verify = kernels.CuteRecoverSSMVerify(
            num_heads=deployment.heads,
            window=deployment.q,
            conv_dim_first=first,
            conv_weight_dtype=torch.float32,
            device=device,
        )
        verify.compile()
        kernels.compile_state_commit(deployment.heads, deployment.q, device, align=first)


def without_triton(source: Source) -> None:
    """Stands in for the Triton kernels beside RecoverSSM's CuTe ones: their launches ask for a driver."""
    recover: Any = source.module("models.kimi_k3.nvidia.ops.recoverssm")
    recover._prepare_commit_plan_kernel = recover._compact_conv_state_kernel = _Grid()
    norms: Any = source.module("third_party.flash_linear_attention.ops.kda")
    norms.rms_norm_gated = lambda x, *_, **__: x


def deploy(deployment: Deployment) -> None:
    """The ranks that ``SpecializedDecode`` asks for: this process is rank 0 of the deployment's group."""
    group = SimpleNamespace(world_size=deployment.tp, rank_in_group=0, device_group=None, all_reduce=lambda tensor: tensor)
    modules: list[Any] = [module for name, module in sys.modules.items() if name.startswith("vllm.")]
    for module in modules:  # that of vllm.distributed, and those that have imported it by name
        for name in ("get_tp_group", "get_dcp_group"):
            if hasattr(module, name):
                setattr(module, name, lambda: group)
    memory: Any = sys.modules["torch.distributed._symmetric_memory"]
    handle = SimpleNamespace(
        multicast_ptr=1 << 40,
        buffer_ptrs=[1 << 40] * deployment.tp,
        get_buffer=lambda rank, sizes, dtype: torch.empty(sizes, dtype=dtype, device="meta"),
    )
    memory.empty = torch.empty
    memory.rendezvous = lambda tensor, group: handle


def forget() -> None:
    """Empties the caches of compiled kernels, so that the next deployment asks for all of its kernels again."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("vllm.", "tokenspeed_mla.")):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _torch(arch: str) -> None:
    import cuda.bindings.driver as driver
    import torch.distributed._symmetric_memory

    digits = arch.removeprefix("sm_").rstrip("a")
    cuda: Any = torch.cuda
    cuda.get_device_capability = lambda *_: (int(digits[:-1]), int(digits[-1]))
    cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=SMS)
    cuda.is_current_stream_capturing = lambda: False
    cuda.Event = ANYTHING
    cuda.Stream = cuda.current_stream = lambda *_, **__: _Stream()
    cuda.stream = lambda _: contextlib.nullcontext()
    torch.accelerator.device_index = lambda *_, **__: contextlib.nullcontext()  # type: ignore[assignment,misc]
    torch.accelerator.synchronize = lambda *_: None
    torch.distributed.barrier = lambda *_, **__: None
    torch.distributed.all_reduce = lambda *_, **__: None
    bindings: Any = driver
    bindings.cuCtxGetStreamPriorityRange = lambda: (driver.CUresult.CUDA_SUCCESS, 0, -5)
    bindings.cuLaunchKernelEx = lambda *_: (driver.CUresult.CUDA_SUCCESS,)


def _compiler() -> None:
    from cuda.bindings.driver import CUdevice_attribute

    runtime: Any = importlib.import_module("cutlass.base_dsl.runtime.cuda")

    def attribute(wanted: CUdevice_attribute, device: int = 0) -> int:
        if wanted is CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            return SM_SHARED_BYTES  # asked for where a kernel names its occupancy (kda/kernel.py)
        raise RuntimeError(f"the compiler asks the device for {wanted.name}: there is no device")

    runtime.get_device_attribute = attribute


def _engine() -> None:
    """What runtime/decode.py and runtime/providers.py import from the rest of vLLM, as far as construction calls it."""
    platform: Any = sys.modules["vllm.platforms"]
    platform.current_platform.current_device = lambda: "meta"
    platform.current_platform.is_arch_support_pdl = lambda: True
    distributed: Any = sys.modules["vllm.distributed"]
    distributed.tensor_model_parallel_all_reduce = lambda tensor: tensor
    distributed.get_dcp_group = None
    parallel = SimpleNamespace(parallel_config=SimpleNamespace(cp_kv_cache_interleave_size=1))
    contents: dict[str, dict[str, Any]] = {
        "vllm.config": {"CUDAGraphMode": ANYTHING, "get_current_vllm_config": lambda: parallel},
        "vllm.forward_context": {"get_forward_context": ANYTHING, "is_forward_context_available": ANYTHING},
        "vllm.model_executor.layers.mamba.mamba_utils": {"is_conv_state_dim_first": lambda: False},
        "vllm.utils.torch_utils": {"current_stream": _Stream},
    }
    for name, attributes in contents.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__dict__.update(attributes)


def _cores() -> None:
    """The attention cores' packages, as far as vLLM calls them. FlashInfer's is compiled code: its front is left out."""
    tokenspeed: Any = importlib.import_module("tokenspeed_mla")
    utils: Any = importlib.import_module("tokenspeed_mla.utils")
    utils.get_hardware_info = lambda: SimpleNamespace(get_max_active_clusters=lambda size: SMS // size)
    tokenspeed.get_num_sm = utils.get_num_sm
    ffi: Any = importlib.import_module("tvm_ffi")
    ffi.use_torch_stream = contextlib.nullcontext
    contents: dict[str, dict[str, Any]] = {
        "flashinfer.decode": {"trtllm_batch_decode_with_kv_cache_mla": ANYTHING},
        "flashinfer.utils": {"get_trtllm_gen_multi_ctas_kv_counter_bytes": lambda batch, heads, sms: 4 * max(batch * heads, sms)},
    }
    for name, attributes in contents.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__dict__.update(attributes)


def _skinny(gemm: Any) -> Any:
    """Takes meta tensors for CUDA's, and compiles anew at each call, so that every deployment asks for its kernels."""

    def called(*operands: Any) -> Any:
        gemm._compiled.clear()
        with patch.object(torch.Tensor, "is_cuda", True):
            return gemm(*operands)

    return called


def _probes(placement: Any) -> None:
    """The kernels by which TP16 finds out which SMs share a cluster; with a GPU, each is launched, too."""
    for cluster in range(2, 17):
        placement._compile_probe(None, cluster, 2 * cluster * max(1, SMS // cluster))
