"""The restated refusals against vLLM's own ``unsupported()``, run from its file on stand-ins for its configuration."""

import sys
from collections.abc import Callable
from enum import Enum, IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.preflight.test_findings import VLLM
from validate.preflight import refusals
from validate.preflight.deployment import Deployment
from validate.preflight.finding import RUNTIME

Deploy = Callable[..., Deployment]
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
NOT_THERE = ("core", "not asked", "misspelt")  # refused elsewhere than in unsupported()


class Mode(IntEnum):
    NONE, STOCK_TORCH_COMPILE, DYNAMO_TRACE_ONCE, VLLM_COMPILE = range(4)


class Graphs(Enum):
    NONE, PIECEWISE, FULL = range(3)

    def decode_mode(self) -> "Graphs":
        return self


def as_vllm_sees(d: Deployment) -> SimpleNamespace:
    """The parts of vLLM's configuration object that its checks read."""
    e, spec, mode = d.engine, d.speculation, d.engine.compilation_config.mode
    defaults = {"hidden_act": "silu"}
    drafts = spec and SimpleNamespace(
        method=spec["method"],
        num_speculative_tokens=spec["num_speculative_tokens"],
        enable_adaptive_verification=spec.get("enable_adaptive_verification", False),
    )
    return SimpleNamespace(
        parallel_config=SimpleNamespace(
            tensor_parallel_size=e.tensor_parallel_size,
            pipeline_parallel_size=e.pipeline_parallel_size,
            decode_context_parallel_size=e.decode_context_parallel_size,
            enable_expert_parallel=e.enable_expert_parallel,
            use_ubatching=e.enable_dbo or e.ubatch_size > 1,
        ),
        speculative_config=drafts,
        model_config=SimpleNamespace(
            hf_text_config=SimpleNamespace(**defaults | dict(d.text)),
            enable_sleep_mode=e.enable_sleep_mode,
            dtype=DTYPES[d.dtype],
        ),
        compilation_config=SimpleNamespace(
            mode=Mode.VLLM_COMPILE if mode is None else Mode(mode), cudagraph_mode=Graphs[d.decode_graphs]
        ),
        lora_config=object() if e.enable_lora else None,
        use_v2_model_runner=d.flag("VLLM_USE_V2_MODEL_RUNNER") is not False,
        cache_config=SimpleNamespace(
            mamba_cache_dtype=e.mamba_cache_dtype,
            mamba_ssm_cache_dtype=e.mamba_ssm_cache_dtype,
            use_replayssm=e.use_replayssm,
            use_kda_recoverssm=False,
        ),
    )


def state_dtype(model: torch.dtype, cache: str, recurrent: str) -> tuple[torch.dtype, torch.dtype]:
    return DTYPES.get(cache, model), DTYPES.get(recurrent, torch.float32)


@pytest.fixture
def vllm_says(vllm_source: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Deployment], str | None]:
    """Why vLLM refuses a deployment, or None."""

    def stand_in(name: str, **contents: Any) -> None:
        module = ModuleType(name)
        module.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, module)

    def says(d: Deployment) -> str | None:
        envs = SimpleNamespace(VLLM_KIMI_K3_AUX_ATTN_RES_STREAM=bool(d.flag("VLLM_KIMI_K3_AUX_ATTN_RES_STREAM")))
        family = SimpleNamespace(is_device_capability_family=lambda number: d.capability[0] * 10 == number)
        stand_in("vllm", envs=envs)
        stand_in("vllm.config", CompilationMode=Mode, CUDAGraphMode=Graphs)
        stand_in("vllm.platforms", current_platform=family)
        for package in ("model_executor", "model_executor.layers", "model_executor.layers.mamba"):
            stand_in(f"vllm.{package}")
        calculator = SimpleNamespace(kda_state_dtype=state_dtype)
        stand_in("vllm.model_executor.layers.mamba.mamba_utils", MambaStateDtypeCalculator=calculator)
        stand_in("k3_runtime")  # where its dataclass looks up its own module
        namespace: dict[str, Any] = {"__name__": "k3_runtime"}
        exec(compile((vllm_source / RUNTIME).read_text(), RUNTIME, "exec"), namespace)
        return namespace["unsupported"](as_vllm_sees(d))

    return says


def test_vllm_takes_what_passes(deploy: Deploy, vllm_says: Callable[[Deployment], str | None]) -> None:
    drafts = {"speculative_config": {"method": "dspark", "num_speculative_tokens": 7}}
    for arguments in ({}, drafts, {"decode_context_parallel_size": 16}):
        assert vllm_says(deploy(arguments)) is None


@pytest.mark.parametrize("name", [name for name in VLLM if name not in NOT_THERE])
def test_vllm_refuses_it_too(deploy: Deploy, vllm_says: Callable[[Deployment], str | None], name: str) -> None:
    change, _ = VLLM[name]
    assert vllm_says(deploy(**change)) is not None


def test_no_check_of_vllm_is_left_out(deploy: Deploy, vllm_source: Path) -> None:
    """As many conditions as in its tuple of checks."""
    import ast

    tree = ast.parse((vllm_source / RUNTIME).read_text())
    (checks,) = (
        node.value.elts
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "checks" and isinstance(node.value, ast.Tuple)
    )
    assert len(list(refusals._unsupported(deploy()))) == len(checks)
