"""The emulated subjects predict what vLLM's own kernels measured on an H200, within 15 %.

Inputs have the distributions of the GPU run (torch normals, other draws); where single values decide the error, the run's
own operands are used (golden/h200/kda_gate.safetensors).
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from validate.model.call import Call
from validate.paths.emulated.arithmetic import mma
from validate.paths.emulated.kda import WIDE_COLUMNS, DefaultKda, SpecializedKda
from validate.reference.kda import reference
from validate.reference.points import Points

GOLDEN = Path(__file__).parents[2] / "golden" / "h200"
MEASURED = json.loads((GOLDEN / "measurements.json").read_text())
CLOSE = 0.15


def relative_error(value: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    return (value.double() - reference).norm() / reference.norm()


def normals(generator: torch.Generator, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator) * scale


def kda_call(heads: int, batch: int) -> Call:
    """The probe's inputs: unit normals but for the convolution (0.5), F_B (0.1), A_log (0.3), norm (1 + 0.1) and state (0.1)."""
    g = torch.Generator().manual_seed(batch)
    width = heads * 128
    gate = load_file(GOLDEN / "kda_gate.safetensors")
    own = heads == 12  # the recorded operands are those of 12 heads
    inputs = {
        "x": normals(g, batch, 3 * width).bfloat16(),
        "gate": normals(g, batch, width).bfloat16(),
        "f_a": gate["f_a"][:batch] if own else normals(g, batch, 128).bfloat16(),
        "beta": normals(g, batch, heads).bfloat16(),
        "f_b": gate["f_b"] if own else normals(g, width, 128, scale=0.1).bfloat16(),
        "conv_weight": normals(g, 3 * width, 4, scale=0.5).bfloat16().float(),
        "a_log": gate["a_log"] if own else normals(g, heads, scale=0.3),
        "dt_bias": gate["dt_bias"] if own else normals(g, width),
        "norm": 1 + normals(g, 128, scale=0.1).bfloat16().float(),
        "slots": torch.arange(1, batch + 1, dtype=torch.int32)[:, None],
        "accepted": torch.ones(batch, dtype=torch.int32),
        "lower_bound": -5.0,
        "l2_eps": 1e-6,
        "norm_eps": 1e-6,
    }
    buffers = {
        "conv": normals(g, batch + 1, 3 * width, 3).bfloat16(),
        "state": normals(g, batch + 1, heads, 128, 128, scale=0.1),
    }
    shape = {"tp": 96 // heads, "batch": batch, "q": 1, "regime": batch}
    return Call("kda", shape, inputs, {"out": ((batch, width), torch.bfloat16)}, buffers)


def kda_errors(stage: type, heads: int, batch: int) -> dict[str, float]:
    call = kda_call(heads, batch)
    expected = reference(call, Points("common"))
    after = call.fresh()
    stage()(after)
    value, exact = after.buffers["state"][expected["state"].where], expected["state"].value
    if heads == 6:
        # Whether one of 768 gate values a row crosses to the other bf16 is chance, unless the operands are the run's own.
        i = call.inputs
        crossed = rounded_gate(i, batch) != (i["f_a"].double() @ i["f_b"].double().T).bfloat16()
        kept = ~crossed.view(batch, heads, 128).any(-1)
        value, exact = value[kept], exact[kept]
    return {
        "output": float(relative_error(after.outputs["out"], expected["out"].value)),
        "state": float(relative_error(value, exact)),
    }


def rounded_gate(inputs: dict, batch: int) -> torch.Tensor:
    columns = WIDE_COLUMNS if batch >= 32 else slice(None)
    return mma(inputs["f_a"][:, columns], inputs["f_b"][:, columns]).bfloat16()


def check(name: str, errors: dict[str, float], figures: dict[str, dict[str, list[float]]], batch: int) -> None:
    for tensor, by_batch in figures.items():
        runs = by_batch[str(batch)]
        print(f"{name}, batch {batch}, {tensor}: emulated {errors[tensor]:.3e}, H200 {' and '.join(f'{r:.3e}' for r in runs)}")
        assert errors[tensor] == pytest.approx(sum(runs) / len(runs), rel=CLOSE)


@pytest.mark.parametrize(
    ("heads", "batch"), [(12, 1), (12, 2), (12, 8), (12, 16), (12, 64), (6, 1), (6, 2), (6, 8), (6, 16), (6, 64)]
)
def test_specialized_kda(heads: int, batch: int) -> None:
    errors = kda_errors(SpecializedKda, heads, batch)
    check(f"specialized KDA, {heads} heads", errors, MEASURED["kda"]["specialized"][str(heads)], batch)


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_default_kda(batch: int) -> None:
    check("default KDA, 12 heads", kda_errors(DefaultKda, 12, batch), MEASURED["kda"]["default"]["12"], batch)


def crossings(value: torch.Tensor) -> list[list[int]]:
    gate = load_file(GOLDEN / "kda_gate.safetensors")
    exact = (gate["f_a"].double() @ gate["f_b"].double().T).bfloat16()
    return (value.bfloat16() != exact).nonzero().tolist()


def test_tensor_core_sum_crosses_where_the_gpu_did() -> None:
    gate = load_file(GOLDEN / "kda_gate.safetensors")
    emulated = mma(gate["f_a"][:, WIDE_COLUMNS], gate["f_b"][:, WIDE_COLUMNS])
    assert crossings(emulated) == MEASURED["kda_gate_crossings"]["places"]


def test_rounding_to_nearest_does_not_explain_the_gpu() -> None:
    """The control of the test above: another accumulation crosses at other places."""
    gate = load_file(GOLDEN / "kda_gate.safetensors")
    assert crossings(gate["f_a"].float() @ gate["f_b"].float().T) != MEASURED["kda_gate_crossings"]["places"]
