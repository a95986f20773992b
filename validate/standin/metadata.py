"""Which rows and slots of a step are whose, as vLLM's engine knows it; imported only where vLLM is.

vLLM's own metadata of linear attention counts a short piece of a prompt among the decoding requests. With drafts that is too
coarse: the state after a prompt belongs into the first slot, the state after draft t into slot t, and where the next step starts
depends on it. The engine says which requests verify drafts or decode; the others' rows are of a prompt, or of a preempted
request's tokens, which are computed again.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.linear_attn import BailingLinearAttentionBackend, BailingLinearAttentionMetadataBuilder
from vllm.v1.attention.backends.utils import mamba_get_block_table_tensor


@dataclass(frozen=True)
class Step:
    """By request: ``starts`` int64 [n + 1] of its rows; ``before`` int64 [n] tokens that have a state; ``decodes`` bool [n].

    ``slots`` int64 [n, 1 + drafts]; ``accepted`` int64 [n] counts the tokens that the step before gave to a decoding request: its
    state is in that slot, 1 being the first.
    """

    starts: Tensor
    before: Tensor
    decodes: Tensor
    slots: Tensor
    accepted: Tensor

    @property
    def counts(self) -> Tensor:
        """int64 [n] rows."""
        return self.starts.diff()


class StepBuilder(BailingLinearAttentionMetadataBuilder):
    """Makes a ``Step`` of what the runner gives. Its base is the one to which vLLM's runner tells how drafts fared."""

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
        *,
        num_accepted_tokens: Tensor | None = None,
        num_decode_draft_tokens_cpu: Tensor | None = None,
    ) -> Step:
        """Without speculation a request decodes if it has one row over tokens that have a state: a prompt's last one may, too.

        (vLLM 0.33.0, ``v1/worker/gpu/model_runner.py``, ``prefill_runs_as_decode_np``.)
        """
        given, n = common_attn_metadata, common_attn_metadata.num_reqs
        starts, lengths = given.query_start_loc[: n + 1].long(), given.seq_lens[:n]
        mode = self.vllm_config.cache_config.mamba_cache_mode
        table = mamba_get_block_table_tensor(given.block_table_tensor[:n], lengths, self.kv_cache_spec, mode)
        counts = starts.diff()
        if num_accepted_tokens is None or num_decode_draft_tokens_cpu is None:
            decodes, accepted = (counts == 1) & (lengths > 1), torch.ones_like(counts)
        else:
            decodes, accepted = num_decode_draft_tokens_cpu[:n] >= 0, num_accepted_tokens[:n].long()
        return Step(starts, lengths.long() - counts, decodes, table[:, : 1 + self.num_spec_tokens].long(), accepted)


class StepBackend(BailingLinearAttentionBackend):
    """Names the builder."""

    @staticmethod
    def get_name() -> str:
        """A name of its own."""
        return "K3_STAND_IN"

    @staticmethod
    def get_builder_cls() -> type[Any]:
        """See ``StepBuilder``."""
        return StepBuilder
