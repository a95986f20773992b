"""What vLLM 0.33.0 refuses itself when the specialized path is asked for, restated: all of it at once."""

from collections.abc import Iterator

from validate.preflight.deployment import Deployment
from validate.preflight.finding import CUTEDSL, RUNTIME, Finding

MOST_DRAFTED = 7
CORES = ("auto", "tokenspeed", "trtllm")
# The MoE of Kimi K3 as its configuration names it.
MOE = {
    "hidden_act": "situ",
    "activation_situ_beta": 4.0,
    "activation_situ_linear_beta": 25.0,
    "num_experts": 896,
    "num_experts_per_token": 16,
    "num_expert_group": 1,
    "topk_group": 1,
    "moe_router_activation_func": "sigmoid",
}
# What vLLM's configuration class puts where config.json says nothing.
MOE_DEFAULTS = {"hidden_act": "silu", "num_expert_group": 1, "topk_group": 1, "moe_router_activation_func": "sigmoid"}


def findings(d: Deployment) -> Iterator[Finding]:
    """Each condition under which vLLM raises on its start; the first that it meets is all that it tells itself."""
    yield from _backend(d)
    for bad, what, do in _unsupported(d):
        if bad:
            yield Finding("refuse", "vLLM", what, do, RUNTIME)
    core = d.engine.additional_config.get("mla_core", "auto")
    if core not in CORES:
        where = f"{CUTEDSL}/mla/prepared.py"
        yield Finding("refuse", "vLLM", f"mla_core is {core!r}", f"it is one of {', '.join(CORES)}", where)


def _backend(d: Deployment) -> Iterator[Finding]:
    backend = d.engine.additional_config.get("decode_backend", "auto")
    ask = """add --additional-config '{"decode_backend": "latency_specialized"}'"""
    if backend == "auto":
        what = "the specialized path is not asked for, so the default one decodes"
        yield Finding("refuse", "vLLM", what, ask, RUNTIME)
    elif backend != "latency_specialized":
        yield Finding("refuse", "vLLM", f"decode_backend {backend!r} does not exist", ask, RUNTIME)


def _unsupported(d: Deployment) -> Iterator[tuple[bool, str, str]]:
    """In the order of vLLM's own checks: whether it holds, what it is, what to do."""
    e, spec = d.engine, d.speculation
    major, minor = d.capability
    yield major != 10, f"GPUs of compute capability {major}.{minor}", "it needs 10.x: B200, GB200, B300 or GB300"
    moe = {name: d.text.get(name, MOE_DEFAULTS.get(name)) for name in MOE}
    other = [f"{name} {moe[name]!r}" for name, wanted in MOE.items() if moe[name] != wanted]
    yield bool(other), f"another MoE than Kimi K3's: {', '.join(other)}", "no other model has this path"
    tp, dcp = e.tensor_parallel_size, e.decode_context_parallel_size
    yield tp not in (8, 16), f"tensor parallel size {tp}", "set --tensor-parallel-size to 8 or 16"
    yield e.pipeline_parallel_size != 1, "pipeline parallelism", "remove --pipeline-parallel-size"
    yield e.enable_expert_parallel, "expert parallelism", "remove --enable-expert-parallel"
    yield e.enable_dbo or e.ubatch_size > 1, "dual batch overlap", "remove --enable-dbo and --ubatch-size"
    yield dcp not in (1, tp), f"decode context parallel size {dcp}", f"set --decode-context-parallel-size to 1 or {tp}"
    yield e.enable_sleep_mode, "sleep mode", "remove --enable-sleep-mode"
    yield e.enable_lora, "LoRA", "remove --enable-lora"
    vocabularies = bool(spec and spec.get("use_heterogeneous_vocab"))
    first_runner = d.flag("VLLM_USE_V2_MODEL_RUNNER") is False or vocabularies
    yield first_runner, "the first model runner", "unset VLLM_USE_V2_MODEL_RUNNER, and draft with the target's vocabulary"
    mode = e.compilation_config.mode
    compiled = mode == 1 or str(mode).upper() == "STOCK_TORCH_COMPILE"
    yield compiled, "the compilation mode STOCK_TORCH_COMPILE", "leave the mode to vLLM"
    eager = "remove --enforce-eager, and leave cudagraph_mode and the optimization level to vLLM"
    yield d.decode_graphs != "FULL", f"decode steps without full CUDA graphs ({d.decode_graphs})", eager
    # None: the method is the draft checkpoint's, which is not read here; ``gaps`` says so.
    method = spec and spec["method"]
    yield bool(method) and method != "dspark", f"the speculative method {method}", "only dspark is served"
    yield bool(spec and spec.get("enable_adaptive_verification")), "adaptive verification", "disable it"
    convolution = d.dtype if e.mamba_cache_dtype == "auto" else e.mamba_cache_dtype
    recurrent = "float32" if e.mamba_ssm_cache_dtype == "auto" else e.mamba_ssm_cache_dtype
    states = f"KDA states of {convolution} (convolution) and {recurrent} (recurrence)"
    wrong = (convolution, recurrent) != ("bfloat16", "float32")
    yield wrong, states, "leave --dtype, --mamba-cache-dtype and --mamba-ssm-cache-dtype at auto: bfloat16 and float32"
    yield e.use_replayssm, "ReplaySSM or RecoverSSM", "remove --use-replayssm"
    too_many = d.q is not None and d.q - 1 > MOST_DRAFTED
    yield too_many, f"{(d.q or 1) - 1} speculative tokens", f"draft at most {MOST_DRAFTED}"
    aux = spec is not None and bool(d.flag("VLLM_KIMI_K3_AUX_ATTN_RES_STREAM"))
    yield aux, "the auxiliary AttnRes stream beside speculation", "unset VLLM_KIMI_K3_AUX_ATTN_RES_STREAM"
