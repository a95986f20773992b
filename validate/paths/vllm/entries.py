"""The entry points of vLLM that the adapters call, and what of them has moved.

Read from the files without importing them: newer versions rename things often, and a difference should be one line
before anything runs, on any machine.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from validate.paths.vllm.source import VERSION, Source

NVIDIA = "vllm/models/kimi_k3/nvidia"
CUTEDSL = f"{NVIDIA}/specialized_decode/cutedsl"


@dataclass(frozen=True)
class Entry:
    """A function, or ``Class.method``, of vLLM 0.33.0: its file and its parameters in their order.

    A method's ``self`` or ``cls`` is not among them. ``keywords``: the parameters are passed by name, so that others may
    stand between them.
    """

    file: str
    name: str
    parameters: tuple[str, ...]
    keywords: bool = False


@dataclass(frozen=True)
class Constant:
    """A module's constant on whose value an adapter relies."""

    file: str
    name: str
    value: object


def _entry(file: str, name: str, parameters: str, *, keywords: bool = False) -> Entry:
    return Entry(file, name, tuple(parameters.split()), keywords)


KDA = f"{NVIDIA}/ops/third_party/kda/fused_recurrent.py"
CONVOLUTION = "vllm/model_executor/layers/mamba/ops/causal_conv1d.py"
GATED_NORM = "vllm/third_party/flash_linear_attention/ops/kda.py"  # nvidia/kda.py imports FusedRMSNormGated from it
RECOVER_SSM, CUTE_RECOVER_SSM = f"{NVIDIA}/ops/recoverssm.py", f"{NVIDIA}/recoverssm/kernels.py"
DSPARK, WORKSPACE = f"{NVIDIA}/dspark_mla.py", "vllm/v1/worker/workspace.py"
ATTN_RES = f"{NVIDIA}/ops/attn_res.py"
PREPARED_KDA, PREPARED_ATTN_RES = f"{CUTEDSL}/kda/prepared.py", f"{CUTEDSL}/attn_res/prepared.py"
HOST, PREPARED_EMBEDDING = f"{CUTEDSL}/common/host.py", f"{CUTEDSL}/common/embedding.py"
MLA_QUERY, MLA_VALUE, FRONT = f"{CUTEDSL}/mla/query.py", f"{CUTEDSL}/mla/value.py", f"{CUTEDSL}/moe/front.py"
PREPARED_MLA, MLA_DCP = f"{CUTEDSL}/mla/prepared.py", f"{CUTEDSL}/mla/dcp.py"
PREPARED_OPROJ, DENSE = f"{CUTEDSL}/oproj/prepared.py", f"{CUTEDSL}/moe/dense.py"
EXPERTS, CHAIN = f"{CUTEDSL}/moe/experts_runtime.py", f"{CUTEDSL}/moe/small_batch/chain.py"
POLICY = f"{CUTEDSL}/common/policy.py"
TWOSHOT, TAIL = f"{CUTEDSL}/common/twoshot.py", f"{CUTEDSL}/moe/tail_runtime.py"
PROVIDERS, PROJECTION = f"{NVIDIA}/specialized_decode/runtime/providers.py", f"{CUTEDSL}/gemm/projection.py"
SHARED, PREPARED_MOE = f"{CUTEDSL}/moe/shared.py", f"{CUTEDSL}/moe/prepared.py"
SKINNY = "vllm/model_executor/kernels/linear/cute_dsl/_skinny_gemm.py"
LOW_LATENCY = f"{NVIDIA}/low_latency_gemm.py"
VOCABULARY = "vllm/model_executor/layers/vocab_parallel_embedding.py"
GATE = "vllm/model_executor/layers/fused_moe/router/gate_linear.py"
ACTIVATION, LAYERNORM = "vllm/model_executor/layers/activation.py", "vllm/ir/ops/layernorm.py"
GUMBEL = "vllm/v1/worker/gpu/sample/gumbel.py"

# The MoE front over all ranks, of which two stages are judged.
MOE_FRONT = (
    _entry(PROVIDERS, "pack_front", "moe rank tp"),
    _entry(PREPARED_OPROJ, "OprojMailbox.__init__", "group device tp rank shape"),
    _entry(PREPARED_MOE, "MoEScratch.__init__", "tp device batches"),
    _entry(FRONT, "SharedFront.__init__", "moe packed box storage batches beta linear_beta plan counters"),
    _entry(FRONT, "SharedFront.route", "x"),
    _entry(CHAIN, "SmallBatchBox.__init__", "group device tp rank"),
    _entry(CHAIN, "_launch", "kind tensors"),
    _entry(CHAIN, "u32", "t"),
    _entry(HOST, "stream", "device"),
)

# An unquantized linear layer of the default path, and its gated MLP.
LINEAR = (
    _entry(LOW_LATENCY, "try_low_latency_gemm", "x weight"),
    _entry(LOW_LATENCY, "_low_latency_table", ""),
    _entry(LOW_LATENCY, "_build_plan", "spec"),
    _entry(LOW_LATENCY, "_run_plan", "plan x weight"),
)
MLP = (
    *LINEAR,
    _entry(ACTIVATION, "SituAndMul.forward_native", "x"),
    _entry(ACTIVATION, "SituAndMul.forward_cuda", "x"),
)

# The drafter, which both paths share.
DRAFT_CONTEXT = (
    *LINEAR,
    _entry(DSPARK, "K3DSparkModel.combine_hidden_states", "hidden_states"),
    _entry(DSPARK, "K3DSparkModel._build_fused_context_kv_metadata", ""),
    _entry(
        DSPARK,
        "K3DSparkModel.precompute_and_store_context_kv",
        "context_states context_positions context_slot_mapping",
    ),
    _entry(DSPARK, "K3DSparkModel._has_uniform_block_layout", "cache_layers"),
    _entry(WORKSPACE, "init_workspace_manager", "device"),
)

# By path and stage. Only parameters that are passed are named.
DEFAULT: Mapping[str, tuple[Entry | Constant, ...]] = {
    "kda": (
        _entry(
            CONVOLUTION,
            "causal_conv1d_update",
            "x conv_state weight bias activation conv_state_indices num_accepted_tokens query_start_loc max_query_len out",
            keywords=True,
        ),
        _entry(
            KDA,
            "fused_recurrent_kda_packed_decode",
            "mixed_qkv raw_g raw_beta A_log dt_bias lower_bound initial_state state_indices out",
            keywords=True,
        ),
        _entry(
            KDA,
            "fused_recurrent_kda",
            "q k v raw_g raw_beta A_log dt_bias lower_bound initial_state cu_seqlens ssm_state_indices num_accepted_tokens out",
        ),
        _entry(GATED_NORM, "rms_norm_gated", "x g weight bias activation eps", keywords=True),
    ),
    "recover_ssm": (
        _entry(
            CONVOLUTION,
            "causal_conv1d_update",
            "x conv_state weight bias activation conv_state_indices num_accepted_tokens query_start_loc max_query_len out",
            keywords=True,
        ),
        _entry(RECOVER_SSM, "KDARecoverSSMRecords.allocate", "max_num_reqs num_heads spec_query_len head_dim dtype device"),
        _entry(RECOVER_SSM, "KDARecoverSSMCommitContext.create", "layers spec_query_len max_num_reqs backend", keywords=True),
        _entry(
            RECOVER_SSM,
            "KDARecoverSSMCommitContext.commit",
            "num_accepted_tokens state_indices query_start_loc request_indices block_table num_computed_tokens mamba_block_size",
        ),
        _entry(
            RECOVER_SSM,
            "kda_recoverssm_verify",
            "q k v raw_g raw_beta A_log dt_bias lower_bound checkpoint_state records query_start_loc state_indices "
            "spec_query_len out",
        ),
        _entry(
            CUTE_RECOVER_SSM,
            "CuteRecoverSSMVerify.__init__",
            "num_heads window conv_dim_first conv_weight_dtype device",
            keywords=True,
        ),
        _entry(CUTE_RECOVER_SSM, "CuteRecoverSSMVerify.compile", ""),
        _entry(
            CUTE_RECOVER_SSM,
            "CuteRecoverSSMVerify.__call__",
            "mixed_qkv raw_gate raw_beta A_log dt_bias lower_bound state records query_start_loc state_indices "
            "num_accepted_tokens conv_state conv_weight out",
            keywords=True,
        ),
        _entry(GATED_NORM, "rms_norm_gated", "x g weight bias activation eps", keywords=True),
    ),
    "attn_res": (
        _entry(
            ATTN_RES,
            "attn_res",
            "prefix delta blocks norm_weight qk_weight output_norm_weight num_blocks block_write_idx eps output_norm_eps",
        ),
    ),
    "embedding": (
        _entry(VOCABULARY, "VocabParallelEmbedding.forward", "input_"),
        _entry(
            VOCABULARY,
            "VocabParallelEmbedding._get_indices",
            "vocab_size_padded org_vocab_size_padded vocab_size org_vocab_size tp_rank tp_size",
        ),
        _entry(VOCABULARY, "UnquantizedEmbeddingMethod.embedding", "layer input_"),
    ),
    "input_projection": (
        *LINEAR,
        _entry(LOW_LATENCY, "run_kda_projection_overlap", "hidden_states packed_weight f_b_weight aux_stream events"),
        Constant(LOW_LATENCY, "KDA_PROJECTION_OVERLAP_MAX_TOKENS", 14),
    ),
    "mla": LINEAR,
    "o_proj": LINEAR,
    "router": (_entry(GATE, "GateLinear.forward", "x"),),
    "latent_down": LINEAR,
    "shared_experts": MLP,
    "dense_mlp": MLP,
    "final_norm": (_entry(LAYERNORM, "rms_norm", "x weight epsilon"),),
    "draft_context": DRAFT_CONTEXT,
    "logits": (
        *LINEAR,
        _entry(GUMBEL, "gumbel_sample", "logits expanded_idx_mapping temperature seed pos apply_temperature is_drafting"),
    ),
}
SPECIALIZED: Mapping[str, tuple[Entry | Constant, ...]] = {
    "embedding": (
        _entry(PREPARED_EMBEDDING, "PreparedEmbedding.__init__", "embedding tp rank"),
        _entry(PREPARED_EMBEDDING, "PreparedEmbedding.run", "ids out"),
    ),
    "mla": (
        _entry(MLA_QUERY, "MlaQuery.__init__", "heads batch q_b_cp_async"),
        Constant(MLA_QUERY, "TILED_FROM", {12: 4, 6: 6}),
        _entry(MLA_VALUE, "MlaValue.__init__", "heads batch q"),
        _entry(
            PREPARED_MLA,
            "PreparedMla.__init__",
            "attention pitches query_scratch max_context dcp parity queries",
            keywords=True,
        ),
        _entry(PREPARED_MLA, "PreparedMla.prepare_cache", "kv"),
        _entry(PREPARED_MLA, "PreparedMla.run", "projected out cache slots block_table lengths totals q"),
        _entry(MLA_DCP, "DcpBox.__init__", "group device size rank heads interleave", keywords=True),
        Constant(MLA_DCP, "LSE_SENT", 0xFFFFFFFF),
        Constant(MLA_DCP, "Q_SENT", 0xFFFFFFFF),
        _entry(HOST, "fake", "shape stride dtype align"),
        _entry(HOST, "layout", "tensor"),
        _entry(HOST, "stream", "device"),
    ),
    "input_projection": (
        _entry(PROVIDERS, "projection_policies", "tp rows batches"),
        _entry(PROVIDERS, "SkinnyProjection.__init__", "weight fallback"),
        _entry(PROVIDERS, "SkinnyProjection.run", "x out"),
        _entry(PROJECTION, "PreparedProjection.__init__", "weight policies"),
        _entry(PROJECTION, "PreparedProjection.prepare", ""),
        _entry(
            SKINNY,
            "CuteSkinnyGemm.__init__",
            "element_type num_rows block_size outputs_per_block vector_width k_unroll has_residual use_pdl static_k",
            keywords=True,
        ),
    ),
    "o_proj": (
        _entry(PREPARED_OPROJ, "compile_oproj", "kind k batch tp nb has_delta mla front cap twoshot"),
        _entry(PREPARED_OPROJ, "OprojMailbox.__init__", "group device tp rank"),
        _entry(PREPARED_OPROJ, "PreparedOproj.__init__", "decoder mailbox batches mla front twoshot"),
        _entry(PREPARED_OPROJ, "PreparedOproj.run", "local prefix blocks out"),
        _entry(PREPARED_OPROJ, "twoshot_batches", "tp"),
        _entry(TWOSHOT, "TwoShot.__init__", "group device tp rank"),
    ),
    "moe_tail": (
        _entry(TAIL, "MoeTailBox.__init__", "group device tp rank"),
        _entry(TAIL, "PreparedTail.__init__", "op norm up batches placement"),
        _entry(TAIL, "PreparedTail.push", "shared"),
        _entry(TAIL, "PreparedTail.run", "expanded weights shared out consume"),
        _entry(TAIL, "MoeTailWeights.run", "box expanded weights shared code batch"),
        _entry(TAIL, "compile_tail", "tp batch device mode trigger"),
        _entry(TAIL, "twoshot_batches", "tp"),
        _entry(TAIL, "shares", "tp batch twoshot"),
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.__init__", "weights key eps"),
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.bind_ring", "mailbox"),
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.run_ring", "prefix blocks out"),
    ),
    "dense_mlp": (
        _entry(DENSE, "PreparedDenseMLP.__init__", "mlp batches"),
        _entry(DENSE, "PreparedDenseMLP.run", "x out"),
        _entry(DENSE, "_compile_activation", "hidden padded arch"),
        _entry(HOST, "architecture", "device"),
        _entry(HOST, "dynamic_view", "tensor"),
    ),
    "shared_experts": (
        _entry(FRONT, "compile_route", "batch shared renorm roles device polled plan"),
        _entry(FRONT, "SharedFront.__init__", "moe packed box storage batches beta linear_beta plan counters q"),
        _entry(FRONT, "SharedFront.shared_expert", "x tail"),
        _entry(FRONT, "SharedFront.merged_batch", "batch"),
        Constant(FRONT, "MERGED", {8: "41-64:1", 16: "33-64:1"}),
        _entry(PROVIDERS, "pack_front", "moe rank tp"),
        _entry(SHARED, "compile_shared", "tp batch device gate front"),
        _entry(SHARED, "scratch", "device"),
        _entry(CHAIN, "_launch", "kind tensors"),
    ),
    "router": (*MOE_FRONT, _entry(FRONT, "compile_route", "batch shared renorm roles device polled plan")),
    "latent_down": MOE_FRONT,
    "experts": (
        _entry(EXPERTS, "PersistentExperts.__init__", "w13 s13 w2 s2 beta linear_beta"),
        _entry(EXPERTS, "PersistentExperts.prepare", "batch buffers out planned early", keywords=True),
        _entry(EXPERTS, "PersistentExperts.grid_for", "batch"),
        _entry(EXPERTS, "PersistentExperts.group", "ids"),
        _entry(EXPERTS, "PersistentExperts.run", "x ids"),
        _entry(EXPERTS, "scratch", "tp device"),
        _entry(CHAIN, "_launch", "kind tensors"),
        _entry(FRONT, "compile_route", "batch shared renorm roles device polled plan"),
        Constant(FRONT, "FUSED", "9-64:1"),
        Constant(FRONT, "SPLIT", "9-12:6,13-24:4,25-64:2"),
        Constant(FRONT, "SPLITS", {8: ("25-32:3", "13-16:6,25-32:4,33-64:3"), 16: ("", "25-32:3")}),
        _entry(POLICY, "batch_table", "spec"),
    ),
    "kda": (
        _entry(PREPARED_KDA, "PreparedKda.__init__", "attention policies conv_dim_first"),
        _entry(PREPARED_KDA, "PreparedKda.prepare_caches", "caches"),
        _entry(PREPARED_KDA, "PreparedKda.run", "projected out caches slots accepted"),
    ),
    "attn_res": (
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.__init__", "weights key eps"),
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.bind_ring", "mailbox"),
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.bind_aux", ""),
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.run", "delta prefix blocks out aux"),
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.run_ring", "prefix blocks out aux"),
        _entry(PREPARED_OPROJ, "compile_oproj", "kind k batch tp nb has_delta mla front cap twoshot"),
        _entry(HOST, "dynamic_view", "tensor"),
    ),
    "final_norm": (
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.__init__", "weights key eps"),
        _entry(PREPARED_ATTN_RES, "PreparedAttnRes.run", "delta prefix blocks out"),
    ),
    "logits": DEFAULT["logits"],
    "draft_context": DRAFT_CONTEXT,
}


def imported(source: Source, file: str, name: str) -> Any:
    """The function or class ``name`` of one of vLLM's files."""
    return getattr(source.module(module_of(file)), name)


def module_of(file: str) -> str:
    """What ``Source.module`` imports for one of vLLM's files."""
    return file.removeprefix("vllm/").removesuffix(".py").replace("/", ".")


def differences(source: Source, wanted: Iterable[Entry | Constant]) -> list[str]:
    """One line for each thing that is not as in 0.33.0; empty if all is there."""
    by_file: dict[str, list[Entry | Constant]] = {}
    for item in wanted:
        by_file.setdefault(item.file, []).append(item)
    found = []
    for file, items in by_file.items():
        path = source.root / file
        if not path.is_file():
            found.append(f"{file}: there is no such file")
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError) as error:
            found.append(f"{file}: cannot be parsed: {error}")
            continue
        found += [f"{file}: {line}" for item in items for line in _moved(tree, item)]
    version, _ = source.version()
    if found and version != VERSION:
        found.insert(0, f"vLLM is {version}, the adapters are written for {VERSION}")
    return found


def _moved(tree: ast.Module, item: Entry | Constant) -> list[str]:
    if isinstance(item, Constant):
        return _changed(tree, item)
    scope: ast.Module | ast.ClassDef = tree
    *owners, name = item.name.split(".")
    for owner in owners:
        inner = next((n for n in scope.body if isinstance(n, ast.ClassDef) and n.name == owner), None)
        if inner is None:
            return [f"there is no class {owner}"]
        scope = inner
    function = next((n for n in scope.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    if function is None:
        return [f"there is no {item.name}"]
    arguments = function.args
    there = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if owners:
        there = there[1:]
    lacking = [name for name in item.parameters if name not in there]
    if lacking:
        return [f"{item.name} takes no {', '.join(lacking)}, but {', '.join(there) or 'nothing'}"]
    given = arguments.defaults, arguments.posonlyargs + arguments.args
    required = [a.arg for a in given[1][: len(given[1]) - len(given[0])]]
    required += [a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is None]
    new = [name for name in required[bool(owners) :] if name not in item.parameters]
    if new:
        return [f"{item.name} wants {', '.join(new)}, too"]
    order = [name for name in there if name in item.parameters] if item.keywords else there[: len(item.parameters)]
    if order != list(item.parameters):
        return [f"{item.name} takes its parameters in another order: {', '.join(order)}"]
    return []


def _changed(tree: ast.Module, item: Constant) -> list[str]:
    for target, assigned in _assignments(tree):
        if isinstance(target, ast.Name) and target.id == item.name:
            try:
                value = ast.literal_eval(assigned)
            except ValueError:
                return [f"{item.name} is no literal any more"]
            return [] if value == item.value else [f"{item.name} is {value!r}, not {item.value!r}"]
    return [f"there is no {item.name}"]


def _assignments(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned to what, each of ``A, B = 1, 2`` alone."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value
