"""What vLLM 0.33.0 does not refuse, though the specialized path was not written for it: G1, G2, G4, G5 and G6.

G3, the sizes that nobody checks, is in ``dimensions``.
"""

from collections.abc import Iterator

from validate.paths import dispatch
from validate.preflight.deployment import Deployment
from validate.preflight.finding import CUTEDSL, NVIDIA, Finding

FP8 = ("fp8", "fp8_e4m3")
DECODE = f"{NVIDIA}/specialized_decode/runtime/decode.py"
PREPARED_MLA = f"{CUTEDSL}/mla/prepared.py"
EXPERTS = f"{CUTEDSL}/moe/experts_runtime.py"
TAIL = f"{NVIDIA}/latent_moe_runner.py"
BACKENDS = "vllm/model_executor/layers/fused_moe/oracle/mxfp4.py"
WATCHDOG = "vllm/config/watchdog_config.py"


def findings(d: Deployment) -> Iterator[Finding]:
    """The gaps that a deployment falls into, and what spoils a comparison of the two paths on it."""
    yield from _cache(d)
    yield from _experts(d)
    yield from _tail(d)
    yield from _features(d)
    yield from _watchdog(d)
    yield from _graphs(d)
    yield from _speculation(d)


def _cache(d: Deployment) -> Iterator[Finding]:
    """G1: the path reads and writes rows of 576 E4M3 bytes, whatever the cache holds."""
    dtype, do = d.engine.kv_cache_dtype, "set --kv-cache-dtype fp8"
    if dtype not in FP8:
        kind = f"{dtype}: K3's is BF16 then" if dtype == "auto" else dtype
        what = f"the KV cache is {kind}, but the path reads and writes 576 FP8 bytes a row"
        yield Finding("refuse", "G1", what, do, PREPARED_MLA)
    if d.engine.kv_cache_dtype_skip_layers:
        what = "layers are left out of the FP8 KV cache, but the path takes every MLA layer's for FP8"
        yield Finding("refuse", "G1", what, "remove --kv-cache-dtype-skip-layers", PREPARED_MLA)


def _experts(d: Deployment) -> Iterator[Finding]:
    """G2: the path takes MXFP4 weights in the order that the TRTLLM kernels want."""
    backend, weights = d.moe_backend, d.weights
    if backend not in ("auto", "flashinfer_trtllm"):
        what = f"the MoE backend {backend} orders the experts' weights in another way than the path reads them"
        yield Finding("refuse", "G2", what, "leave --moe-backend at auto", EXPERTS)
    method, layout = weights.get("quant_method"), weights.get("format")
    if method != "mxfp4" and (method, layout) != ("compressed-tensors", "mxfp4-pack-quantized"):
        named = " ".join(str(part) for part in (method, layout) if part) or "not quantised"
        what = f"the checkpoint's experts are {named}, but the path reads MXFP4"
        yield Finding("refuse", "G2", what, "use the MXFP4 checkpoint", EXPERTS)
    if d.engine.quantization not in (None, "mxfp4", "compressed-tensors") or d.engine.quantization_config:
        what = "the weights are quantised anew on loading, but the path reads the checkpoint's MXFP4 and BF16"
        yield Finding("refuse", "G2", what, "remove --quantization and --quantization-config", EXPERTS)
    if backend == "flashinfer_trtllm":
        what = (
            "the default arm's experts take BF16 activations, while the specialized path quantises them to MXFP8: "
            "a comparison of the two measures the quantisation, too"
        )
        yield Finding("warn", "A/B", what, "leave --moe-backend at auto, which takes MXFP8 in both", BACKENDS)


def _tail(d: Deployment) -> Iterator[Finding]:
    """G4: the path takes parts of the default path's fused tail, which not every configuration has."""
    text = d.text
    lacking = [
        name
        for name, there in (
            ("num_shared_experts", text.get("num_shared_experts")),
            ("routed_expert_hidden_size", text.get("routed_expert_hidden_size")),
            ("latent_moe_use_norm", text.get("latent_moe_use_norm", False)),
        )
        if not there
    ]
    if lacking:
        what = f"the model has no fused MoE tail ({', '.join(lacking)} not set), and the path fails without it"
        yield Finding("refuse", "G4", what, "no other model has this path", TAIL)


def _features(d: Deployment) -> Iterator[Finding]:
    """G5: features that move state or weights behind the path's back; nothing of vLLM combines them on NVIDIA GPUs."""
    e, spec = d.engine, d.speculation
    for there, what, do in (
        (e.data_parallel_size > 1, "data parallelism", "remove --data-parallel-size"),
        (e.prefill_context_parallel_size > 1, "prefill context parallelism", "remove --prefill-context-parallel-size"),
        (e.kv_transfer_config is not None, "a KV connector", "remove --kv-transfer-config"),
        (e.kv_offloading_size is not None, "KV cache offloading", "remove --kv-offloading-size"),
        (e.enable_eplb or e.enable_elastic_ep, "expert load balancing", "remove --enable-eplb and --enable-elastic-ep"),
        (e.weight_transfer_config is not None, "reloading of weights, which were copied", "remove --weight-transfer-config"),
        (
            e.cpu_offload_gb > 0 or e.offload_group_size > 0,
            "weights offloaded to the CPU",
            "remove --cpu-offload-gb and --offload-group-size",
        ),
        (
            bool(spec and spec.get("num_speculative_tokens_per_batch_size")),
            "a number of drafted tokens that changes with the batch",
            "set num_speculative_tokens alone",
        ),
        (e.enable_return_routed_experts, "the return of routed experts", "remove --enable-return-routed-experts"),
    ):
        if there:
            yield Finding("refuse", "G5", f"{what}: the path does not support it", do, DECODE)


def _watchdog(d: Deployment) -> Iterator[Finding]:
    """G6: every wait for another rank spins without an end."""
    if not d.engine.watchdog_config.get("dump_dir"):
        what = "a rank that stalls hangs all others: their kernels wait without an end, and no watchdog tells where"
        do = """set --watchdog-config '{"dump_dir": DIR}', and end a run that makes no progress yourself"""
        yield Finding("warn", "G6", what, do, WATCHDOG)


def _graphs(d: Deployment) -> Iterator[Finding]:
    """Steps run specialized only in captured graphs of a prepared size."""
    if d.captured is None or d.q is None or d.decode_graphs != "FULL":
        return
    steps = dispatch.Deployment(d.q, d.captured)
    if not any(dispatch.captured_as(rows, steps).specialized for rows in steps.graphs):
        what = (
            f"no CUDA graph of {', '.join(map(str, d.captured))} rows has prepared kernels: every step runs on the default path"
        )
        yield Finding("refuse", "G5", what, f"capture sizes up to {dispatch.PREPARED[-1]} rows", DECODE)


def _speculation(d: Deployment) -> Iterator[Finding]:
    """What only the draft's checkpoint tells, and an MLA core that is not taken."""
    where = "vllm/config/speculative.py"
    if d.speculation is not None and d.speculation["method"] is None:
        do = "name it: --spec-method dspark"
        yield Finding("warn", "G5", "the speculative method is left to the draft's checkpoint", do, where)
    if d.q is None:
        what = "the number of drafted tokens is left to the draft's checkpoint"
        yield Finding("warn", "G5", what, "set num_speculative_tokens, at most 7", where)
    if d.engine.decode_context_parallel_size > 1 and d.engine.additional_config.get("mla_core") == "trtllm":
        what = "mla_core trtllm has no effect under decode context parallelism: tokenspeed's core runs"
        yield Finding("warn", "A/B", what, "remove mla_core", PREPARED_MLA)
