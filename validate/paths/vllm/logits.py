"""Logits and the greedy token by the default path, which the specialized one shares."""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.entries import GUMBEL, imported
from validate.paths.vllm.framework import linear, linear_note, notes
from validate.paths.vllm.source import Source


class DefaultLogits(Whole):
    """``LogitsProcessor`` and the sampler's ``gumbel_sample`` at temperature 0, as ``Sampler.sample`` calls it (vLLM 0.33.0,
    model_executor/layers/logits_processor.py, v1/worker/gpu/sample/sampler.py).

    The head is a linear layer whose shard chooses the kernel; the case has a part of each shard's rows. The all-gather copies
    the shards in the order of the ranks; all ranks then sample alike, and one does so here.
    """

    step = ("x",)
    launches_triton = True  # the sampler

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def note(self, call: Call) -> str | None:
        """The all-gather is the framework's."""
        return notes("all-gather emulated, one rank samples for all", linear_note(call.shape["batch"]))

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.logits.reference`` says what the tensors are."""
        x, head, tp = call.inputs["x"], call.inputs["head"], call.shape["tp"]
        sample = imported(source, GUMBEL, "gumbel_sample")
        request = torch.arange(len(x), dtype=torch.int32, device=x.device)
        greedy = torch.zeros(len(x), dtype=torch.float32, device=x.device)
        unused = torch.zeros(len(x), dtype=torch.int64, device=x.device)  # seeds and positions of the noise

        def launch() -> None:
            logits = torch.cat([linear(source, x, shard, K3.vocab // tp) for shard in head.chunk(tp)], 1)
            call.outputs["logits"].copy_(logits.expand(tp, -1, -1))
            token = sample(logits, request, greedy, unused, unused, apply_temperature=False, is_drafting=False)
            call.outputs["token"].copy_(token[:, None].expand(tp, -1, -1))

        return Prepared(launch)
