"""The DSpark drafter's context by vLLM's own model class, the same on both paths.

Its three operators are compiled: an installed vLLM has them on a GPU. On a CPU vLLM's code around them runs, and they are
emulated: what it hands to them (rows by layer, positions, slots, scales, addresses of the caches) is its own.
"""

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import draft_context as emulated
from validate.paths.emulated.mla import E4M3
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.entries import DSPARK, WORKSPACE, imported, module_of
from validate.paths.vllm.framework import compiled, linear, linear_note, notes
from validate.paths.vllm.source import Source

OPERATORS = ("rms_norm", "rotary_embedding")  # of torch.ops._C; beside them _C_cache_ops.concat_and_cache_mla_grouped


class DraftContext(Whole):
    """``combine_hidden_states``, then ``precompute_and_store_context_kv``, of ``K3DSparkModel`` (dspark_mla.py, vLLM 0.33.0).

    The model is made of the attributes that the two read, without its layers' constructors, which load an engine.
    """

    step = ("states", "positions", "slots")

    def missing(self, call: Call, source: Source) -> str | None:
        """A GPU without the compiled operators: only an installed vLLM has them."""
        if source.interpreted or has_operators():
            return None
        return "its operators are compiled: it takes an installed vLLM"

    def note(self, call: Call) -> str | None:
        """What is emulated on a CPU, and linear layers."""
        around = None if has_operators() else "vLLM's code around its compiled operators, which are emulated"
        return notes(around, linear_note(len(call.inputs["states"])))

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.draft_context.reference`` says what the tensors are."""
        i, cache = call.inputs, call.buffers["cache"]
        module: Any = source.module(module_of(DSPARK))
        module.ops = module.ops if has_operators() else Operators(call)
        dtype = "fp8" if cache.dtype == E4M3 else "auto"
        rotary = SimpleNamespace(head_size=i["table"].shape[1], cos_sin_cache=i["table"], is_neox_style=False)
        width = i["kv_norm"].shape[1]
        model = object.__new__(imported(source, DSPARK, "K3DSparkModel"))
        torch.nn.Module.__init__(model)
        attentions = [
            SimpleNamespace(
                q_lora_rank=width,  # only that there is one, and alike
                kv_lora_rank=width,
                qk_rope_head_dim=i["table"].shape[1],
                kv_a_layernorm=SimpleNamespace(weight=i["kv_norm"][layer], variance_epsilon=i["eps"]),
                kv_cache=cache[layer] if dtype == "auto" else cache[layer].view(torch.uint8),
                kv_cache_dtype=dtype,
                _k_scale=None if i["scales"] is None else i["scales"][layer],
                rotary_emb=rotary,
            )
            for layer in range(len(cache))
        ]
        model._max_num_context_tokens = len(i["states"])
        model.layers = [SimpleNamespace(self_attn=attention) for attention in attentions]
        model.context_proj = _Function(lambda x: linear(source, x, i["context_proj"]))
        model.context_kv_proj = _Function(lambda x: linear(source, x, i["kv_proj"]))
        model.context_norm = _Function(lambda x: self._normalised(module.ops, x, i))
        model._build_fused_context_kv_metadata()
        with patch.object(torch.cuda, "is_current_stream_capturing", lambda: False):  # a CPU's torch has none to ask
            model._has_uniform_block_layout(attentions)  # remembered, as after vLLM's first step
        if source.installed:  # scratch memory, which a worker sets up
            source.module(module_of(WORKSPACE)).init_workspace_manager(i["states"].device)

        def launch() -> None:
            context = model.combine_hidden_states(i["states"])
            call.outputs["context"].copy_(context)
            slots = i["slots"] if i["slots"].dim() == 1 else list(i["slots"])
            model.precompute_and_store_context_kv(context, i["positions"], slots)

        return Prepared(launch)

    def _normalised(self, ops: Any, x: Tensor, i: Any) -> Tensor:
        out = torch.empty_like(x)
        ops.rms_norm(out, x, i["context_norm"], i["eps"])
        return out


class _Function(torch.nn.Module):
    """A layer that is a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        """What the function returns."""
        result: Tensor = self._function(x)
        return result


class Operators:
    """The three operators, emulated, with vLLM's own signatures (vllm/_custom_ops.py)."""

    def __init__(self, call: Call) -> None:
        self._caches = {cache.data_ptr(): cache for cache in call.buffers["cache"]}
        self._stage = emulated.DraftContext()

    def rms_norm(self, out: Tensor, x: Tensor, weight: Tensor, eps: float) -> None:
        """Rows of ``x`` [..., n]; a weight [groups, n] is that of each of the first dimension."""
        by_group = weight if weight.dim() == 1 else weight[:, None]
        out.copy_(self._stage.normalise(x.float(), by_group.float(), eps))

    def rotary_embedding(self, positions: Tensor, query: Tensor, key: None, head_size: int, table: Tensor, is_neox: bool) -> None:
        """Rotates ``query`` [tokens, 1, head_size] in place."""
        assert key is None
        assert not is_neox
        query.copy_(self._stage.rotate(query.float(), table[positions][:, None]))

    def concat_and_cache_mla_grouped(
        self,
        latent: Tensor,
        rest: Tensor,
        addresses: Tensor,
        slots: Tensor,
        block: int,
        block_stride: int,
        entry_stride: int,
        scales: Tensor | None,
        dtype: str,
    ) -> None:
        """Rows [layers, tokens, 512] and [layers, tokens, 64] into the layers' caches, by their addresses."""
        caches = [self._caches[address] for address in addresses.tolist()]
        for cache in caches:
            assert (cache.shape[1], cache.stride(0), cache.stride(1)) == (block, block_stride, entry_stride)
        row = torch.cat([latent, rest], -1).float()
        stored = self._stage.stored(row, {"scales": scales}, E4M3 if dtype.startswith("fp8") else torch.bfloat16)
        for layer, cache in enumerate(caches):
            written = self._stage.written(slots[layer]).nonzero()[:, 0]
            cache.flatten(0, 1)[slots[layer][written]] = stored[layer, written]


def has_operators() -> bool:
    """Whether vLLM's compiled operators are there."""
    return all(map(compiled, OPERATORS)) and hasattr(torch.ops._C_cache_ops, "concat_and_cache_mla_grouped")
