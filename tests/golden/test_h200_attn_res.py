"""Emulated AttnRes errs as vLLM's own kernels did on an H200: by the rounding of its output, and by no more.

Inputs have the distributions of the GPU run (torch normals, other draws).
"""

import json
from pathlib import Path

import pytest
import torch

from validate.model.call import Call
from validate.paths.emulated.attn_res import DefaultAttnRes, SpecializedAttnRes
from validate.reference.attn_res import reference
from validate.reference.points import Points

GOLDEN = Path(__file__).parents[2] / "golden" / "h200"
MEASURED = json.loads((GOLDEN / "measurements.json").read_text())["attn_res"]
HIDDEN = 7168
# One row has 7168 roundings: their 2-norm scatters by about one percent; the figures have four digits.
CLOSE = 0.04


def call(batch: int) -> Call:
    """The probe's inputs: unit normals, weights of 0.5 to 1.5, a query of 0.02."""
    g = torch.Generator().manual_seed(batch)

    def normals(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g)

    inputs = {
        "delta": normals(batch, HIDDEN).bfloat16(),
        "norm": torch.rand(HIDDEN, generator=g).bfloat16() + 0.5,
        "query": normals(HIDDEN).bfloat16() * 0.02,
        "out_norm": torch.rand(HIDDEN, generator=g).bfloat16() + 0.5,
        "eps": 1e-6,
        "out_eps": 1e-6,
    }
    buffers = {"prefix": normals(batch, HIDDEN).bfloat16(), "blocks": normals(batch, 8, HIDDEN).bfloat16()}
    shape = {"batch": batch, "blocks": MEASURED["blocks"][str(batch)], "add": 1, "write": -1, "final": 0}
    return Call("attn_res", shape, inputs, {"out": ((batch, HIDDEN), torch.bfloat16)}, buffers)


@pytest.mark.parametrize("batch", [1, 4, 64])
@pytest.mark.parametrize(("path", "stage"), [("default", DefaultAttnRes), ("specialized", SpecializedAttnRes)])
def test_errs_as_on_the_gpu(path: str, stage: type, batch: int):
    before = call(batch)
    expected = reference(before, Points("common"))
    exact = expected["out"].value
    after = before.fresh()
    stage()(after)
    error = float((after.outputs["out"].double() - exact).norm() / exact.norm())
    floor = float((exact.bfloat16().double() - exact).norm() / exact.norm())
    print(f"{path} AttnRes, batch {batch}: emulated {error:.4e}, H200 {MEASURED[path][str(batch)]:.4e}, floor {floor:.4e}")
    assert error == pytest.approx(MEASURED[path][str(batch)], rel=CLOSE)
    assert error == pytest.approx(floor, rel=1e-3)
    assert torch.equal(after.buffers["prefix"], expected["prefix"].value.bfloat16())
