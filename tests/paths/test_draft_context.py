"""vLLM's own code of the drafter's context around emulated operators: sound it passes, edited it fails."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import Edit
from validate.numerics import judge
from validate.numerics.case import Case
from validate.paths.vllm import Vllm, entries, source

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: the extra 'interpreter'")


def failed(root: Path, batch: int, fp8: int, inputs: str) -> set[str]:
    subject = Vllm("default", source.opened(root, interpreted=True))
    (judgement,) = judge.judge(Case("draft_context", {"batch": batch, "fp8": fp8}, inputs, 0), [subject])
    assert judgement.missing is None
    assert "compiled operators, which are emulated" in str(judgement.note)
    return {f"{m.tensor} {m.check}" for m in judgement.measurements if not m.passed}


@pytest.mark.parametrize(("fp8", "inputs"), [(0, "trained"), (1, "trained"), (0, "padded"), (0, "shared"), (0, "faint")])
def test_sound_code_passes(vllm_source: Path, fp8: int, inputs: str) -> None:
    assert failed(vllm_source, 3, fp8, inputs) == set()


FIRST = "for attn in [attentions[0]] * len(attentions)]"
FAULTS = {
    "norm of the first layer": ({"weight.detach() for attn in attentions]": f"weight.detach() {FIRST}"}, 0, "trained"),
    "scale of the first layer": ({"_k_scale.reshape(()) for attn in attentions]": f"_k_scale.reshape(()) {FIRST}"}, 1, "trained"),
    "positions by token": (
        {
            "view(num_layers, num_ctx).copy_(context_positions)": "view(num_ctx, num_layers).copy_(context_positions[:, None])",
        },
        0,
        "trained",
    ),
    "slots of the first layer": (
        {"torch.stack(per_layer_slot_mappings, dim=0)": "per_layer_slot_mappings[0].expand(num_layers, -1)"},
        0,
        "trained",
    ),
    "rows by token": (
        {"all_kv_c = all_kv_c.permute(1, 0, 2).contiguous()": "all_kv_c = all_kv_c.contiguous().view(num_layers, num_ctx, -1)"},
        0,
        "trained",
    ),
    "no context norm": (
        {"self.context_norm(self.context_proj(hidden_states))": "self.context_proj(hidden_states)"},
        0,
        "trained",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_edited_code_fails(edited: Edit, name: str) -> None:
    replacements, fp8, inputs = FAULTS[name]
    assert failed(edited(entries.DSPARK, replacements), 3, fp8, inputs)
