"""The default path's layers by vLLM's files: sound they pass, with a fault edited into a copy they fail."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.support import Edit
from validate.numerics import judge
from validate.numerics.case import Case
from validate.paths.vllm import ADAPTERS, Vllm, choose, default_mla, entries, framework, source
from validate.profiles import load

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: the extra 'interpreter'")


def case(stage: str, inputs: str, **sizes: int) -> Case:
    """The first case with these sizes."""
    for found in judge.cases(load("cpu"), [stage]):
        if found.inputs == inputs and all(found.sizes[name] == value for name, value in sizes.items()):
            return found
    raise AssertionError(f"no case of {stage} with {inputs}, {sizes}")


def failed(root: Path, of: Case) -> set[str]:
    (judgement,) = judge.judge(of, [Vllm("default", source.opened(root, interpreted=True))])
    assert judgement.missing is None
    return {f"{m.tensor} {m.check}" for m in judgement.measurements if not m.passed}


BOUNDARIES = case("embedding", "boundaries", tp=8, batch=40)
FAINT, SATURATED = case("final_norm", "faint", batch=1), case("shared_experts", "saturated", tp=16, batch=1)
TRAINED = case("shared_experts", "trained", tp=16, batch=1)
TIED, LAST = case("logits", "tied", tp=16, batch=12), case("logits", "edges", tp=16)
SOUND = [
    BOUNDARIES,
    case("embedding", "zeros", tp=1),
    case("input_projection", "padded", tp=16, mla=0),
    case("input_projection", "rows", tp=8, mla=1),
    case("mla", "trained", tp=16, batch=2, q=1),
    case("o_proj", "sentinel", tp=16, batch=2),
    case("latent_down", "zeros", tp=8, batch=2),
    SATURATED,
    TRAINED,
    case("dense_mlp", "trained", tp=16, batch=1),
    FAINT,
    TIED,
    LAST,
]


@pytest.mark.parametrize("of", SOUND, ids=lambda of: of.id)
def test_sound_layers_pass(vllm_source: Path, of: Case) -> None:
    assert failed(vllm_source, of) == set()


FIRST = "(input_ >= org_vocab_start_index)"
GATED = "torch.tanh(gate / self.beta) * torch.sigmoid(gate)"
LAST_BLOCK = "local_max.shape[1] - 1 - local_max.flip(1).argmax("
FAULTS = {
    "a shard's first id": (
        entries.VOCABULARY,
        {FIRST: FIRST.replace(">=", ">")},
        BOUNDARIES,
    ),
    "rows of other ranks' ids": (entries.VOCABULARY, {"input_mask.unsqueeze(-1), 0)": "input_mask[:, None], 1)"}, BOUNDARIES),
    "normalised rows not rounded": (entries.LAYERNORM, {"x.to(weight.dtype) * weight": "x * weight.float()"}, FAINT),
    "no epsilon": (entries.LAYERNORM, {"variance + epsilon": "variance"}, FAINT),
    "no sigmoid": (entries.ACTIVATION, {GATED: "torch.tanh(gate / self.beta)"}, SATURATED),
    "a rounded gate": (entries.ACTIVATION, {"(gate * up).to(x.dtype)": "(gate.to(x.dtype) * up).to(x.dtype)"}, TRAINED),
    "up not bounded": (entries.ACTIVATION, {"torch.tanh(up / self.linear_beta)": "(up / self.linear_beta)"}, SATURATED),
    "the last of equal logits": (entries.GUMBEL, {"local_max.argmax(": LAST_BLOCK}, TIED),
    "a block's place lost": (entries.GUMBEL, {"token_id = block_idx * BLOCK_SIZE + idx": "token_id = idx"}, LAST),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_edited_into_the_layers_fail(edited: Edit, name: str) -> None:
    file, replacements, of = FAULTS[name]
    assert of in SOUND
    assert failed(edited(file, replacements), of)


WITH_PRODUCTS = [of for of in SOUND if of.stage not in ("embedding", "final_norm")]


@pytest.mark.parametrize("of", WITH_PRODUCTS, ids=lambda of: of.id)
def test_lost_products_fail(vllm_source: Path, monkeypatch: pytest.MonkeyPatch, of: Case) -> None:
    """On a CPU the products are torch's; here they lack the last 64 of each sum."""

    def short(multiply: Callable[[Tensor, Tensor], Tensor], x: Tensor, weight: Tensor) -> Tensor:
        x = x.clone()
        x[..., -64:] = 0.0
        return multiply(x.float(), weight.float()).bfloat16()

    for module in (framework, default_mla):
        monkeypatch.setattr(module, "in_fp32", short)
    assert failed(vllm_source, of)


def test_what_no_adapter_runs_is_said() -> None:
    nowhere = source.Source(Path())
    for stage, said in (("experts", "compiled"), ("moe_tail", "symmetric memory")):
        call = judge.build(judge.cases(load("gb300-tp16"), [stage])[0])
        assert said in str(choose("default", call, nowhere, (10, 3), 16))


def test_a_cpu_has_no_fp32_logits(vllm_source: Path) -> None:
    subject = Vllm("default", source.opened(vllm_source, interpreted=True))
    assert "need a GPU" in str(subject.missing(judge.build(case("router", "trained", tp=8, batch=1))))


def test_every_stage_has_entry_points_and_an_adapter() -> None:
    stages = set(judge.STAGES) - {"decode_step"}
    assert set(ADAPTERS["default"]) == stages
    assert set(entries.DEFAULT) == stages - {"experts", "moe_tail"}


def test_products_on_a_cpu_keep_subnormals() -> None:
    x, weight = torch.full((2, 8), 2.0**-130).bfloat16(), torch.ones(4, 8).bfloat16()
    assert torch.equal(framework.linear(source.Source(Path()), x, weight).float(), torch.full((2, 4), 2.0**-127))
