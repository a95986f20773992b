"""The stand-in as vLLM's engine runs it: its hybrid cache, scheduler and sampler around the stand-in's layers.

``additional_config={"decode_backend": "latency_specialized"}`` selects the specialized decode for the steps that vLLM's ``plan()``
would serve (``paths.dispatch``), ``auto`` or nothing the default path for all. vLLM is imported here, and only where the
engine itself imports this file.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from vllm.config import CacheConfig, VllmConfig
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateCopyFuncCalculator
from vllm.model_executor.models.interfaces import HasInnerState, IsHybrid
from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum

from validate.model.decoding import Request
from validate.model.dimensions import Dimensions
from validate.paths.dispatch import Deployment, plan
from validate.standin import network, recurrence, weights
from validate.standin.forms import Forms, Weights
from validate.standin.specialized import SpecializedForms

SPECIALIZED = "latency_specialized"


def state_shapes(d: Dimensions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of one slot: the convolution's taps [tap, channel] and the recurrent state [H, V, K]."""
    return (d.conv_width - 1, 3 * d.heads * d.head_dim), (d.heads, d.head_dim, d.head_dim)


class Kda(nn.Module, MambaBase):
    """A KDA layer's state: vLLM allocates it, moves it between blocks and says which slot is whose."""

    def __init__(self, d: Dimensions, vllm_config: VllmConfig, prefix: str) -> None:
        super().__init__()
        self.d, self.prefix, self.dtype = d, prefix, vllm_config.model_config.dtype
        self.kv_cache: tuple[Tensor, ...] = (torch.tensor([]), torch.tensor([]))
        vllm_config.compilation_config.static_forward_context[prefix] = self

    @property
    def mamba_type(self) -> MambaAttentionBackendEnum:
        """vLLM's metadata for linear attention: slots, lengths, which rows are prompts."""
        return MambaAttentionBackendEnum.LINEAR

    def get_state_shape(self) -> tuple[tuple[int, ...], ...]:
        """Taps and recurrent state."""
        return state_shapes(self.d)

    def get_state_dtype(self) -> tuple[torch.dtype, ...]:
        """Taps as the activations, recurrent state in fp32."""
        return self.dtype, torch.float32

    def attend(self, forms: Forms, own: Weights, x: Tensor, metadata: Any) -> Tensor:
        """Rows [n, H * D] of x [n, hidden], n the rows of all requests; states move on."""
        qkv, gate, f_a, beta = network.projected(forms, False, own, x)
        log_decay, beta = forms.kda_gates(own, f_a, beta)
        attended = torch.zeros(len(x), self.d.heads, self.d.head_dim, device=x.device)
        if metadata is not None:
            starts = metadata.query_start_loc
            counts = starts.diff()
            single = counts == 1
            before = metadata.seq_lens - counts
            if single.any():
                rows = starts[:-1][single].long()
                args = qkv[rows], log_decay[rows], beta[rows]
                slots = metadata.state_indices_tensor[single].long()
                attended[rows] = self.token(forms, own, *args, slots, before[single] > 0)
            for n in (~single).nonzero()[:, 0].tolist():
                rows = slice(int(starts[n]), int(starts[n + 1]))
                slot = int(metadata.state_indices_tensor[n])
                args = qkv[rows], log_decay[rows], beta[rows]
                attended[rows] = self.tokens(forms, own, *args, slot, bool(before[n] > 0))
        return forms.kda_out(own, attended, gate)

    def token(
        self, forms: Forms, own: Weights, qkv: Tensor, log_decay: Tensor, beta: Tensor, slots: Tensor, continued: Tensor
    ) -> Tensor:
        """One token of each of several requests: fp32 [n, H, D]."""
        conv, state = self.kv_cache
        taps = conv[slots] * continued[:, None, None]
        windows = torch.cat([taps, qkv[:, None]], 1)
        conv[slots] = windows[:, 1:]
        query, key, value = forms.kda_heads(forms.convolve(own, windows))
        current = state[slots] * continued[:, None, None, None]
        out, after = recurrence.step(current, query, key, value, log_decay.exp(), beta)
        state[slots] = after
        return out

    def tokens(
        self, forms: Forms, own: Weights, qkv: Tensor, log_decay: Tensor, beta: Tensor, slot: int, continued: bool
    ) -> Tensor:
        """Several tokens of one request: fp32 [n, H, D]."""
        conv, state = self.kv_cache
        rows = torch.cat([conv[slot] if continued else torch.zeros_like(conv[slot]), qkv])
        windows = rows.unfold(0, self.d.conv_width, 1).transpose(1, 2)
        conv[slot] = rows[-(self.d.conv_width - 1) :]
        heads = forms.kda_heads(forms.convolve(own, windows))
        query, key, value, decay = (x.transpose(0, 1)[None] for x in (*heads, log_decay))
        current = state[slot] if continued else torch.zeros_like(state[slot])
        out, after = recurrence.chunked(query, key, value, decay, beta.T[None], current[None])
        state[slot] = after[0]
        return out[0].transpose(0, 1)


class K3StandInForCausalLM(nn.Module, HasInnerState, IsHybrid):
    """The whole model. It counts its steps by the path that they ran on, from the engine's own metadata."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.d: Dimensions = config.dimensions()
        self.prefix = f"{prefix}." if prefix else ""
        dtype = vllm_config.model_config.dtype
        shapes = weights.names(self.d).items()
        self.flat = nn.ParameterDict({n.replace(".", "/"): nn.Parameter(torch.empty(s, dtype=dtype), False) for n, s in shapes})
        self.attention = nn.ModuleList(self.mixer(n, vllm_config) for n in range(self.d.layers))
        backend = vllm_config.additional_config.get("decode_backend", "auto")
        if backend not in ("auto", SPECIALIZED):
            raise ValueError(f"unknown decode_backend {backend!r}: there are auto and {SPECIALIZED}")
        self.default, self.specialized = Forms(self.d), SpecializedForms(self.d)
        self.deployment = Deployment() if backend == SPECIALIZED else None
        self.counts: Counter[tuple[str, str, int, int, str]] = Counter()
        self.split: tuple[list[Weights], Weights] | None = None

    def mixer(self, n: int, vllm_config: VllmConfig) -> nn.Module:
        """What layer ``n`` keeps between steps."""
        name = f"{self.prefix}layers.{n}.attention"
        if not self.d.is_mla(n):
            return Kda(self.d, vllm_config, name)
        cache: CacheConfig = vllm_config.cache_config
        return Attention(self.d.heads, self.d.v_head, self.d.mla_scale, cache_config=cache, prefix=name)

    def embed_input_ids(self, input_ids: Tensor) -> Tensor:
        """Rows of the embedding."""
        return self.flat["embedding"][input_ids]

    def forward(
        self, input_ids: Tensor, positions: Tensor, intermediate_tensors: Any = None, inputs_embeds: Any = None, **_: Any
    ) -> Tensor:
        """Normalised hidden rows [n, hidden] of this step's token ids [n]."""
        if self.split is None:
            flat = {name.replace("/", "."): value.data for name, value in self.flat.items()}
            self.split = weights.by_layer(self.d, flat)
        metadata = self.metadata()
        forms = self.planned(metadata)

        def attention(forms: Forms, n: int, own: Weights, x: Tensor) -> Tensor:
            mixer = self.attention[n]
            if isinstance(mixer, Kda):
                return mixer.attend(forms, own, x, metadata)
            q_a, kv, k_pe, gate = network.projected(forms, True, own, x)
            attended = mixer(*(part.flatten(1) for part in forms.mla_heads(own, q_a, kv, k_pe)))
            return forms.mla_out(attended, gate)

        return network.run(forms, *self.split, input_ids, attention)

    def metadata(self) -> Any:
        """The engine's description of this step for the KDA layers; None in a profiling run."""
        found = get_forward_context().attn_metadata
        return None if found is None else found[f"{self.prefix}layers.0.attention"]

    def planned(self, metadata: Any) -> Forms:
        """The path of this step, counted."""
        if metadata is None:
            return self.default
        decodes, prefills = metadata.num_decodes, metadata.num_prefills
        kind = "decode" if prefills == 0 else "prefill" if decodes == 0 else "mixed"
        requests = (Request(1),) * decodes + (Request(1, prompt=True),) * prefills
        rows = metadata.num_decode_tokens + metadata.num_prefill_tokens
        if self.deployment is None:
            self.counts["default", kind, rows, 1, "decode_backend auto"] += 1
            return self.default
        made = plan(requests, self.deployment)
        self.counts[
            "specialized" if made.specialized else "default", kind, made.rows if made.specialized else rows, 1, made.reason
        ] += 1
        return self.specialized if made.specialized else self.default

    def step_counts(self) -> list[dict[str, Any]]:
        """``records.arm.StepCount`` by fields, since the last reset."""
        names = ("path", "kind", "rows", "q", "reason")
        return [{**dict(zip(names, key, strict=True)), "count": count} for key, count in sorted(self.counts.items())]

    def reset_step_counts(self) -> None:
        """Begins to count anew."""
        self.counts.clear()

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        """Logits [n, vocab] of the activations' dtype."""
        return hidden_states @ self.flat["head"].T

    def load_weights(self, given: Iterable[tuple[str, Tensor]]) -> set[str]:
        """Fills the parameters from the file's tensors; returns their names as vLLM checks them."""
        loaded = set()
        for name, value in given:
            self.flat[name.replace(".", "/")].data.copy_(value)
            loaded.add(f"flat.{name.replace('.', '/')}")
        return loaded

    @classmethod
    def get_mamba_state_dtype_from_config(cls, vllm_config: VllmConfig) -> tuple[torch.dtype, ...]:
        """As ``Kda.get_state_dtype``."""
        return vllm_config.model_config.dtype, torch.float32

    @classmethod
    def get_mamba_state_shape_from_config(cls, vllm_config: VllmConfig) -> tuple[tuple[int, ...], ...]:
        """As ``Kda.get_state_shape``."""
        return state_shapes(vllm_config.model_config.hf_config.dimensions())

    @classmethod
    def get_mamba_state_copy_func(cls) -> Any:
        """How prefix caching copies a block's taps and state."""
        return MambaStateCopyFuncCalculator.kda_state_copy_func()
