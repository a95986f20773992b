"""The stand-in as vLLM's engine runs it: its hybrid cache, scheduler and sampler around the stand-in's layers.

``additional_config={"decode_backend": "latency_specialized"}`` selects the specialized decode for the steps that vLLM's
``plan()`` would serve (``paths.dispatch``), ``auto`` or nothing the default path for all. Steps are planned as with CUDA graphs
of vLLM's default sizes, which a CPU has not. ``planted`` there names a fault (``validate.faults.engine``): it takes the place of
the path that it is planted in. vLLM is imported here, and only where the engine itself imports this file.
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

from validate.faults import engine
from validate.model.decoding import Request
from validate.model.dimensions import Dimensions
from validate.paths.dispatch import Deployment, Plan
from validate.records.arm import SPECIALIZED
from validate.standin import copies, network, weights
from validate.standin.forms import Forms, Weights
from validate.standin.metadata import Step, StepBackend
from validate.standin.specialized import SpecializedForms


def state_shapes(d: Dimensions, drafts: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of one slot: the convolution's taps [tap, channel], one more for each draft token, and the recurrent state [H, V, K]."""
    return (d.conv_width - 1 + drafts, 3 * d.heads * d.head_dim), (d.heads, d.head_dim, d.head_dim)


class Kda(nn.Module, MambaBase):
    """A KDA layer's state: vLLM allocates it, moves it between blocks and says which slots are whose.

    As in vLLM's own KDA, a request that verifies drafts has a slot a token: the state after token t goes to slot t, the next step
    starts from the slot of the last accepted token, and the taps are all in the first slot (``reference.kda``).
    """

    def __init__(self, d: Dimensions, vllm_config: VllmConfig, prefix: str) -> None:
        super().__init__()
        self.d, self.prefix, self.dtype = d, prefix, vllm_config.model_config.dtype
        self.drafts = vllm_config.num_speculative_tokens
        self.kv_cache: tuple[Tensor, ...] = (torch.tensor([]), torch.tensor([]))
        vllm_config.compilation_config.static_forward_context[prefix] = self

    @property
    def mamba_type(self) -> MambaAttentionBackendEnum:
        """Linear attention."""
        return MambaAttentionBackendEnum.LINEAR

    def get_attn_backend(self) -> type[StepBackend]:
        """What makes ``Step``."""
        return StepBackend

    def get_state_shape(self) -> tuple[tuple[int, ...], ...]:
        """Taps and recurrent state."""
        return state_shapes(self.d, self.drafts)

    def get_state_dtype(self) -> tuple[torch.dtype, ...]:
        """Taps as the activations, recurrent state in fp32."""
        return self.dtype, torch.float32

    def attend(self, forms: Forms, own: Weights, x: Tensor, step: Step | None) -> Tensor:
        """Rows [n, H * D] of x [n, hidden], n the rows of all requests; states move on. No ``step``: a profiling run."""
        qkv, gate, f_a, beta = network.projected(forms, False, own, x)
        log_decay, beta = forms.kda_gates(own, f_a, beta)
        attended = torch.zeros(len(x), self.d.heads, self.d.head_dim, device=x.device)
        if step is not None:
            counts = step.counts
            for count in counts[step.decodes].unique().tolist():
                of = (step.decodes & (counts == count)).nonzero()[:, 0]
                rows = step.starts[of][:, None] + torch.arange(count)
                parts = qkv[rows], log_decay[rows], beta[rows]
                slots, continued = step.slots[of], step.before[of] > 0
                attended[rows] = forms.kda_decode(own, self.kv_cache, parts, slots, step.accepted[of], continued)
            for n in (~step.decodes).nonzero()[:, 0].tolist():
                piece = slice(int(step.starts[n]), int(step.starts[n + 1]))
                parts = qkv[piece], log_decay[piece], beta[piece]
                slot, begun = int(step.slots[n, 0]), bool(step.before[n] > 0)
                attended[piece] = forms.kda_prefill(own, self.kv_cache, parts, slot, begun)
        return forms.kda_out(own, attended, gate)


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
        planted = vllm_config.additional_config.get("planted")
        self.default = engine.planted(planted, Forms)(self.d)
        self.specialized = engine.planted(planted, SpecializedForms)(self.d)
        self.current: Forms = self.default
        self.q = 1 + vllm_config.num_speculative_tokens
        if self.q > 1:
            copies.register()
        self.deployment = Deployment(self.q) if backend == SPECIALIZED else None
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
        # By layer: KDA layers of different cache groups share memory, each with slots of its own.
        metadata = get_forward_context().attn_metadata or {}
        self.current = self.planned(metadata.get(self.attention[0].prefix))

        def attention(forms: Forms, n: int, own: Weights, x: Tensor) -> Tensor:
            mixer = self.attention[n]
            if isinstance(mixer, Kda):
                return mixer.attend(forms, own, x, metadata.get(mixer.prefix))
            q_a, kv, k_pe, gate = network.projected(forms, True, own, x)
            attended = mixer(*(part.flatten(1) for part in forms.mla_heads(own, q_a, kv, k_pe)))
            return forms.mla_out(attended, gate)

        return network.run(self.current, *self.split, input_ids, attention)

    def planned(self, step: Step | None) -> Forms:
        """The path of this step, counted."""
        if step is None:
            return self.default
        # A prompt of one token that is filled up with drafts is a prompt all the same (v1/worker/gpu/model_runner.py of 0.33.0).
        counts, prompts = step.counts.tolist(), (~step.decodes | (step.before == 0)).tolist()
        rows, q = sum(counts), 1 if any(prompts) else max(counts)
        kind = "prefill" if all(prompts) else "mixed" if any(prompts) else "decode" if q == 1 else "verify"
        requests = tuple(Request(count, prompt) for count, prompt in zip(counts, prompts, strict=True))
        made = Plan(False, rows, q, "decode_backend auto")
        if self.deployment is not None:
            made = self.specialized.plan(requests, self.deployment)
        path, forms = ("specialized", self.specialized) if made.specialized else ("default", self.default)
        self.counts[path, kind, made.rows, q, made.reason] += 1
        return forms

    def step_counts(self) -> list[dict[str, Any]]:
        """``records.arm.StepCount`` by fields, since the last reset."""
        names = ("path", "kind", "rows", "q", "reason")
        return [{**dict(zip(names, key, strict=True)), "count": count} for key, count in sorted(self.counts.items())]

    def reset_step_counts(self) -> None:
        """Begins to count anew."""
        self.counts.clear()

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        """Logits [n, vocab] of the activations' dtype."""
        return self.current.logits(hidden_states, self.flat["head"])

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
        return state_shapes(vllm_config.model_config.hf_config.dimensions(), vllm_config.num_speculative_tokens)

    @classmethod
    def get_mamba_state_copy_func(cls) -> Any:
        """How prefix caching copies a block's taps and state."""
        return MambaStateCopyFuncCalculator.kda_state_copy_func()
