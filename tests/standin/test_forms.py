"""The specialized forms are the default ones but for orders of summation, and in bf16 for roundings."""

import pytest
import torch

from tests.standin.small import SMALL, drawn
from validate.standin import weights
from validate.standin.forms import Forms
from validate.standin.specialized import SpecializedForms

ROWS = 5
U32 = 2.0**-24


def results(forms: Forms, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What each form that the specialized path has of its own gives of random rows."""
    layers, _ = weights.by_layer(SMALL, drawn(dtype))
    kda, moe = layers[0], layers[1]
    generator = torch.Generator().manual_seed(2)

    def rows(*shape: int) -> torch.Tensor:
        return torch.randn(ROWS, *shape, generator=generator).to(dtype)

    x, width = rows(SMALL.hidden), SMALL.heads * SMALL.head_dim
    norms = kda["attn_res_norm"], kda["attn_res_query"], kda["input_norm"]
    return {
        "attn_res": forms.attn_res(norms, x, [rows(SMALL.hidden), rows(SMALL.hidden)]),
        "project": forms.project(x, kda["in_proj"]),
        "kda": forms.kda_out(
            kda, forms.convolve(kda, rows(4, 3 * width))[:, :width].unflatten(1, (SMALL.heads, -1)), rows(width)
        ),
        "o_proj": forms.o_proj(kda["o"], rows(width)),
        "mlp": forms.mlp(kda["gate_up"], kda["down"], x),
        "router": forms.router_logits(x, moe["router"]),
        "expert": forms.expert(moe["w13"][0], moe["w2"][0], rows(SMALL.latent)),
        "shared": forms.shared(moe, x),
        "tail": forms.tail(moe, rows(SMALL.latent), rows(SMALL.hidden)),
    }


NAMES = list(results(Forms(SMALL), torch.float32))


@pytest.mark.parametrize("name", NAMES)
def test_in_float32_only_sums_differ(name: str) -> None:
    """Each value is a sum of at most 96 terms or of two such in a row, so 2 * 96 roundings of the largest value bound it."""
    default, specialized = (results(form(SMALL), torch.float32)[name] for form in (Forms, SpecializedForms))
    assert (default - specialized).abs().max() < 2 * 96 * U32 * default.abs().max()


def test_in_bf16_roundings_differ() -> None:
    """In some value at least; by no more than a few ulps of the largest, 2**-8 each."""
    default, specialized = (results(form(SMALL), torch.bfloat16) for form in (Forms, SpecializedForms))
    apart = {name: float((default[name].float() - specialized[name].float()).abs().max()) for name in NAMES}
    assert {name for name, value in apart.items() if value} >= {"kda", "o_proj", "expert", "shared", "tail"}
    assert all(value <= 4 * 2.0**-8 * float(default[name].float().abs().max()) for name, value in apart.items())
