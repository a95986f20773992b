"""Sound deployments pass, and each thing that vLLM refuses or overlooks is found alone and by its name."""

from collections.abc import Callable
from typing import Any

import pytest

from validate.errors import InputError
from validate.preflight import findings, verdict
from validate.preflight.deployment import Deployment
from validate.verdict import Verdict

Deploy = Callable[..., Deployment]
DSPARK = {"speculative_config": {"method": "dspark", "model": "draft", "num_speculative_tokens": 7}}
SPECIALIZED = {"decode_backend": "latency_specialized"}


def spec(**fields: Any) -> dict[str, Any]:
    return {"speculative_config": DSPARK["speculative_config"] | fields}


@pytest.mark.parametrize("tp", [8, 16])
@pytest.mark.parametrize("shared", [False, True], ids=["", "dcp"])
@pytest.mark.parametrize("speculation", [{}, DSPARK], ids=["", "dspark"])
def test_sound_deployments_pass(deploy: Deploy, tp: int, shared: bool, speculation: dict[str, Any]) -> None:
    sizes = {"tensor_parallel_size": tp, "decode_context_parallel_size": tp if shared else 1}
    found = findings(deploy(sizes | speculation))
    assert found == []
    assert verdict(found) is Verdict.PASS


VLLM: dict[str, tuple[dict[str, Any], str]] = {
    "gpu": ({"capability": (9, 0)}, "compute capability 9.0"),
    "moe": ({"text": {"num_experts_per_token": 8}}, "num_experts_per_token 8"),
    "act": ({"text": {"hidden_act": None}}, "hidden_act 'silu'"),
    "tp": ({"arguments": {"tensor_parallel_size": 4}}, "tensor parallel size 4"),
    "pp": ({"arguments": {"pipeline_parallel_size": 2}}, "pipeline parallelism"),
    "ep": ({"arguments": {"enable_expert_parallel": True}}, "expert parallelism"),
    "dbo": ({"arguments": {"enable_dbo": True}}, "dual batch overlap"),
    "ubatch": ({"arguments": {"ubatch_size": 2}}, "dual batch overlap"),
    "dcp": ({"arguments": {"decode_context_parallel_size": 8}}, "decode context parallel size 8"),
    "sleep": ({"arguments": {"enable_sleep_mode": True}}, "sleep mode"),
    "lora": ({"arguments": {"enable_lora": True}}, "LoRA"),
    "runner": ({"environment": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, "first model runner"),
    "compiled": ({"arguments": {"compilation_config": {"mode": 1}}}, "STOCK_TORCH_COMPILE"),
    "eager": ({"arguments": {"enforce_eager": True}}, "without full CUDA graphs (NONE)"),
    "piecewise": ({"arguments": {"compilation_config": {"cudagraph_mode": "piecewise"}}}, "(PIECEWISE)"),
    "level": ({"arguments": {"optimization_level": 1}}, "(PIECEWISE)"),
    "method": ({"arguments": spec(method="eagle3")}, "speculative method eagle3"),
    "adaptive": ({"arguments": spec(enable_adaptive_verification=True)}, "adaptive verification"),
    "convolution": ({"arguments": {"mamba_cache_dtype": "float32"}}, "float32 (convolution)"),
    "recurrence": ({"arguments": {"mamba_ssm_cache_dtype": "bfloat16"}}, "bfloat16 (recurrence)"),
    "dtype": ({"text": {"dtype": "float16"}}, "float16 (convolution)"),
    "replay": ({"arguments": {"use_replayssm": True}}, "ReplaySSM"),
    "drafted": ({"arguments": spec(num_speculative_tokens=8)}, "8 speculative tokens"),
    "aux": ({"arguments": DSPARK, "environment": {"VLLM_KIMI_K3_AUX_ATTN_RES_STREAM": "1"}}, "auxiliary AttnRes"),
    "core": ({"arguments": {"additional_config": SPECIALIZED | {"mla_core": "flash"}}}, "mla_core is 'flash'"),
    "not asked": ({"arguments": {"additional_config": {}}}, "is not asked for"),
    "misspelt": ({"arguments": {"additional_config": {"decode_backend": "fast"}}}, "'fast' does not exist"),
}


@pytest.mark.parametrize(("change", "what"), VLLM.values(), ids=VLLM)
def test_what_vllm_refuses(deploy: Deploy, change: dict[str, Any], what: str) -> None:
    found = findings(deploy(**change))
    (finding,) = found
    assert (finding.severity, finding.name) == ("refuse", "vLLM")
    assert what in finding.what
    assert finding.where.startswith("vllm/models/kimi_k3/nvidia/specialized_decode/")
    assert verdict(found) is Verdict.INVALID


GAPS: dict[str, tuple[dict[str, Any], str, str]] = {
    "G1 default": ({"arguments": {"kv_cache_dtype": "auto"}}, "refuse", "auto: K3's is BF16"),
    "G1 layout": ({"arguments": {"kv_cache_dtype": "fp8_ds_mla"}}, "refuse", "fp8_ds_mla"),
    "G1 skipped": ({"arguments": {"kv_cache_dtype_skip_layers": [3]}}, "refuse", "left out of the FP8"),
    "G2 backend": ({"arguments": {"moe_backend": "marlin"}}, "refuse", "marlin"),
    "G2 kernels": ({"arguments": {"kernel_config": {"moe_backend": "deep_gemm"}}}, "refuse", "deep_gemm"),
    "G2 checkpoint": (
        {"text": {"quantization_config": {"quant_method": "modelopt", "format": "nvfp4"}}},
        "refuse",
        "modelopt nvfp4",
    ),
    "G2 none": ({"text": {"quantization_config": None}}, "refuse", "not quantised"),
    "G2 anew": ({"arguments": {"quantization": "fp8"}}, "refuse", "quantised anew"),
    "G3 fixed": ({"text": {"q_lora_rank": 1024}}, "refuse", "q_lora_rank is 1024"),
    "G3 width": ({"text": {"linear_attn_config.short_conv_kernel_size": 3}}, "refuse", "short_conv_kernel_size is 3"),
    "G3 given": ({"text": {"routed_scaling_factor": 2.5}}, "warn", "routed_scaling_factor is 2.5"),
    "G3 bound": ({"text": {"linear_attn_config.gate_lower_bound": -4.0}}, "warn", "gate_lower_bound is -4.0"),
    "G3 renormalised": ({"text": {"moe_renormalize": False}}, "warn", "moe_renormalize is False"),
    "G3 left out": ({"text": {"rms_norm_eps": None}}, "warn", "rms_norm_eps is 1e-06"),
    "G3 layers": ({"text": {"linear_attn_config.full_attn_layers": [4]}}, "warn", "full_attn_layers"),
    "G3 overridden": ({"arguments": {"hf_overrides": {"text_config": {"v_head_dim": 64}}}}, "refuse", "v_head_dim is 64"),
    "G4": ({"text": {"latent_moe_use_norm": False}}, "refuse", "latent_moe_use_norm not set"),
    "G5 dp": ({"arguments": {"data_parallel_size": 2}}, "refuse", "data parallelism"),
    "G5 pcp": ({"arguments": {"prefill_context_parallel_size": 2}}, "refuse", "prefill context"),
    "G5 connector": ({"arguments": {"kv_transfer_config": {"kv_connector": "NixlConnector"}}}, "refuse", "KV connector"),
    "G5 offloaded cache": ({"arguments": {"kv_offloading_size": 8}}, "refuse", "KV cache offloading"),
    "G5 eplb": ({"arguments": {"enable_eplb": True}}, "refuse", "load balancing"),
    "G5 reload": ({"arguments": {"weight_transfer_config": {"backend": "nccl"}}}, "refuse", "reloading of weights"),
    "G5 offloaded weights": ({"arguments": {"cpu_offload_gb": 4}}, "refuse", "weights offloaded"),
    "G5 dynamic": (
        {"arguments": spec(num_speculative_tokens_per_batch_size={"1": 7})},
        "refuse",
        "changes with the batch",
    ),
    "G5 routed": ({"arguments": {"enable_return_routed_experts": True}}, "refuse", "return of routed experts"),
    "G5 graphs": ({"arguments": {"cudagraph_capture_sizes": [128, 256]}}, "refuse", "every step runs on the default path"),
    "G5 method": ({"arguments": spec(method=None)}, "warn", "speculative method is left"),
    "G5 drafted": ({"arguments": spec(num_speculative_tokens=None)}, "warn", "number of drafted tokens is left"),
    "G6": ({"arguments": {"watchdog_config": {}}}, "warn", "no watchdog"),
    "A/B activations": ({"arguments": {"moe_backend": "flashinfer_trtllm"}}, "warn", "BF16 activations"),
    "A/B core": (
        {"arguments": {"decode_context_parallel_size": 16, "additional_config": SPECIALIZED | {"mla_core": "trtllm"}}},
        "warn",
        "has no effect",
    ),
}


@pytest.mark.parametrize("name", GAPS)
def test_what_nobody_refuses(deploy: Deploy, name: str) -> None:
    change, severity, what = GAPS[name]
    found = findings(deploy(**change))
    (finding,) = found
    assert (finding.severity, finding.name) == (severity, name.split()[0])
    assert what in finding.what
    assert verdict(found) is (Verdict.INVALID if severity == "refuse" else Verdict.INCONCLUSIVE)


def test_mailboxes_that_would_collide(deploy: Deploy) -> None:
    """94 MoE layers: the first and the last would take the same of three parts."""
    names = {(finding.severity, finding.name) for finding in findings(deploy(text={"num_hidden_layers": 95}))}
    assert ("refuse", "vLLM") in names


def test_all_are_told_at_once_and_refusals_first(deploy: Deploy) -> None:
    found = findings(deploy({"tensor_parallel_size": 4, "enforce_eager": True, "kv_cache_dtype": "auto", "watchdog_config": {}}))
    assert [finding.name for finding in found] == ["vLLM", "vLLM", "G1", "G6"]
    assert all("\n" not in str(finding) for finding in found)


def test_the_method_is_read_off_the_drafts_name(deploy: Deploy) -> None:
    assert findings(deploy({"spec_model": "org/K3-DSpark", "spec_tokens": 4})) == []
    (finding,) = findings(deploy({"spec_model": "org/K3-Eagle3", "spec_tokens": 4}))
    assert "speculative method eagle3" in finding.what


def test_some_captured_sizes_suffice(deploy: Deploy) -> None:
    assert findings(deploy({"cudagraph_capture_sizes": [1, 64, 512]} | DSPARK)) == []


def test_a_variable_that_is_no_switch_is_refused(deploy: Deploy) -> None:
    with pytest.raises(InputError, match="VLLM_USE_V2_MODEL_RUNNER is 'yes'"):
        findings(deploy(environment={"VLLM_USE_V2_MODEL_RUNNER": "yes"}))
