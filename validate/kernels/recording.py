"""Asks vLLM which kernels a deployment compiles: its ``cute.compile`` is replaced by a recorder, then called for real.

Beside those of the specialized path, the default path's of RecoverSSM, in both layouts of the convolution's state.

A variant is named after the stage, the kernel's class and the parameters of vLLM's own compile function, for instance
``kda/KdaSplit/heads=12,gate_mode=1,has_bias=0,tokens=4,batch=8``.
"""

import dataclasses
import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import torch

from validate.kernels import driverless
from validate.kernels.deployment import Deployment, backbone, config

# The stage whose file compiles it; gemm/projection also serves the shared experts and the dense MLP.
STAGES = {
    "attn_res.prepared": "attn_res",
    "common.embedding": "embedding",
    "common.prefetch": "prefetch",
    "gemm.projection": "input_projection",
    "kda.prepared": "kda",
    "kernels": "recover_ssm",  # recoverssm/kernels.py
    "mla.dcp": "mla",
    "mla.prepared": "mla",
    "mla_decode": "mla",  # of tokenspeed_mla
    "moe.dense": "dense_mlp",
    "moe.experts_runtime": "experts",
    "moe.front": "router",
    "moe.shared": "shared_experts",
    "moe.small_batch.chain": "small_batch",
    "moe.small_batch.front_tp16": "small_batch",
    "moe.tail_runtime": "moe_tail",
    "oproj.prepared": "o_proj",
    "skinny_gemm": "input_projection",
}
UNNAMED = {"self", "specs", "uv", "device", "device_index", "arch"}
# Parameters of the compile function that do not reach this kernel's code (oproj/prepared.py, mla/prepared.py), or that vLLM
# gives alike for all (tokenspeed's, mla/dcp.py). Otherwise two kernels get the same name, and the second one's is marked with
# the digest of what it is compiled from.
UNUSED = {
    "OprojProducer": {"nb", "has_delta", "front"},
    "OprojUmma": {"nb", "has_delta", "front"},
    "OprojConsumer": {"k", "batch", "mla"},
    "OprojFused": {"mla"},
    "MlaQuery": {"q", "sms"},
    "MlaValue": {"sms", "dcp"},
    "BlackwellMultiHeadLatentAttentionForwardFP8": {
        "torch_dtype",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "is_persistent",
        "is_var_seq",
        "is_var_split_kv",
        "compute_capability",
        "has_local_visible_lens",
        "skip_correction_threshold",
        "causal_mask",
        "window_left",
        "cp_rank",
        "use_pdl",
        "partial_fp16",
    },
}


@dataclass(frozen=True)
class Variant:
    """One kernel as vLLM compiles it: its name, a digest of what it is compiled from, and the call that compiles it."""

    name: str
    signature: str
    compile: Callable[[], Any]


class Recorder:
    """The variants of several deployments, each once. One in a process: it replaces ``cute.compile``."""

    def __init__(self, decode: ModuleType) -> None:
        cute: Any = importlib.import_module("cutlass.cute")
        experimental: Any = importlib.import_module("cutlass.cute.experimental")
        self._decode = decode
        _warm_cores()
        self.variants: dict[str, Variant] = {}
        self._names: dict[str, str] = {}  # by signature
        self._asked: list[str] = []
        cute.compile, experimental.compile = self._instead_of(cute.compile), self._instead_of(experimental.compile)

    def record(self, deployment: Deployment) -> list[str]:
        """The names of what vLLM compiles for a deployment, in its order."""
        driverless.deploy(deployment)
        driverless.forget()
        self._asked = []
        decode = self._decode.SpecializedDecode(backbone(deployment), config(deployment))
        decode.prepare_kv()
        if deployment.q > 1 and not deployment.dcp:
            driverless.compile_recover_ssm(deployment)
        return list(dict.fromkeys(self._asked))

    def _instead_of(self, compile_: Any) -> Callable[..., Any]:
        def recorded(kernel: Any, *arguments: Any, **options: Any) -> Any:
            self._add(sys._getframe(1), kernel, lambda: compile_(kernel, *arguments, **options), (arguments, options))
            return driverless.ANYTHING

        return recorded

    def _add(self, frame: FrameType, kernel: Any, compile_: Callable[[], Any], given: Any) -> None:
        signature = _signature(kernel, given)
        if signature not in self._names:
            name = _name(frame, kernel)
            if name in self.variants:
                name += f",variant={signature[:8]}"
            self._names[signature] = name
            self.variants[name] = Variant(name, signature, compile_)
        self._asked.append(self._names[signature])


def _warm_cores() -> None:
    """``prepare_cache`` runs each core once, and so compiles it, where the cache is on a GPU (mla/prepared.py): here, too."""
    prepared: Any = sys.modules[f"vllm.{driverless.CUTEDSL}.mla.prepared"].PreparedMla
    prepare = prepared.prepare_cache

    def prepare_cache(self: Any, kv: torch.Tensor) -> Any:
        prepare(self, kv)
        for batch, q in self.cores:
            lengths = torch.empty(batch, dtype=torch.int32, device="meta")
            self.stock_core(kv, lengths[:, None], lengths, batch, q, lengths)
        return self

    prepared.prepare_cache = prepare_cache


def _name(frame: FrameType, kernel: Any) -> str:
    found = kind(kernel)
    file = frame.f_globals["__name__"].rpartition("cutedsl.")[2]
    stage = STAGES.get(file) or STAGES.get(file.rpartition(".")[2], file)
    skipped = UNNAMED | UNUSED.get(found, set())
    given = {name: value for name, value in _parameters(frame).items() if name not in skipped}
    if found == "KdaSplit":  # its compile function takes these from the operands' shapes
        projected, _, _, convolution = frame.f_locals["specs"][:4]
        given |= {"batch": projected[0][0], "taps": convolution[0][-1]}
    return f"{stage}/{found}/" + ",".join(f"{name}={_short(value)}" for name, value in given.items())


def _parameters(frame: FrameType) -> dict[str, Any]:
    names, rest, keywords, values = inspect.getargvalues(frame)
    found = {name: values[name] for name in names}
    if rest:
        found |= {f"{rest}{n}": value for n, value in enumerate(values[rest])}
    return found | (values[keywords] if keywords else {})


def kind(kernel: Any) -> str:
    """The class of a kernel, and the method if it is one."""
    owner = getattr(kernel, "__self__", None)  # a kernel that is a method: WaveMoeTail.push
    return type(kernel).__name__ if owner is None else f"{type(owner).__name__}.{kernel.__name__}"


def _short(value: Any) -> str:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.astuple(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ".".join(map(_short, value))
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return str(int(value)) if isinstance(value, bool) else str(value)


def _signature(kernel: Any, given: Any) -> str:
    owner = getattr(kernel, "__self__", kernel)
    text = repr((kind(kernel), _described(owner), given))
    return hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", text).encode()).hexdigest()


def _described(value: Any) -> Any:
    """Kernel objects of vLLM by what they hold, and those within them."""
    if type(value).__module__.startswith(("vllm.", "flashinfer.", "tokenspeed_mla.")):
        return type(value).__name__, [(name, _described(inner)) for name, inner in sorted(vars(value).items())]
    return value
