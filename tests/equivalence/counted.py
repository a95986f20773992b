"""A tiny Qwen3 that counts its steps as the stand-in does, and the command line on it; in a process of its own.

python -m tests.equivalence.counted make FOLDER     makes the model
python -m tests.equivalence.counted ARGUMENTS       python -m validate ARGUMENTS, with the count
"""

import os
import sys
from collections import Counter
from functools import wraps
from typing import Any


def make(folder: str) -> None:
    """Two layers of random weights, large enough for tokens to differ."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 32}
    model = Qwen3ForCausalLM(
        Qwen3Config(vocab_size=320, num_key_value_heads=2, eos_token_id=2, tie_word_embeddings=False, **sizes)
    )
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.25)
    model.to(torch.bfloat16).save_pretrained(folder)


def count() -> None:
    """Counts every forward call as specialized if the arm asks for it and it has one row a request."""
    from vllm.config import get_current_vllm_config
    from vllm.forward_context import get_forward_context
    from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM

    counts: Counter[tuple[str, str, int]] = Counter()
    begin, forward = Qwen3ForCausalLM.__init__, Qwen3ForCausalLM.forward

    @wraps(begin)  # vLLM looks at the parameters
    def init(self: Any, **named: Any) -> None:
        begin(self, **named)
        self.specialized = get_current_vllm_config().additional_config["decode_backend"] == "latency_specialized"

    @wraps(forward)
    def counted(self: Any, input_ids: Any, *arguments: Any, **named: Any) -> Any:
        found = get_forward_context().attn_metadata
        if found:
            lengths = next(iter(found.values())).query_start_loc.diff()
            kind = "decode" if int(lengths.max()) == 1 else "mixed" if int(lengths.min()) == 1 else "prefill"
            counts["specialized" if self.specialized and kind == "decode" else "default", kind, len(input_ids)] += 1
        return forward(self, input_ids, *arguments, **named)

    def step_counts(self: Any) -> list[dict[str, Any]]:
        return [{"path": p, "kind": k, "rows": r, "q": 1, "reason": "", "count": n} for (p, k, r), n in sorted(counts.items())]

    Qwen3ForCausalLM.__init__, Qwen3ForCausalLM.forward = init, counted
    Qwen3ForCausalLM.step_counts, Qwen3ForCausalLM.reset_step_counts = step_counts, lambda self: counts.clear()


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        from validate import cli
        from validate.equivalence.arm import load

        for variable, value in load(sys.argv[2]).environment.items():
            os.environ[variable] = value
        count()
        sys.argv[0] = "validate"
        cli.main()
