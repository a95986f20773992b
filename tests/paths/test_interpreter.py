"""Triton's interpreter in bf16, mended and as shipped, against torch."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

if find_spec("triton") is None:
    pytest.skip("Triton is not installed: the extra 'interpreter'", allow_module_level=True)

from validate.paths.vllm import interpreter
from validate.paths.vllm.interpreter import InterpreterBuilder, TensorHandle, tl


def values() -> torch.Tensor:
    """fp32 numbers: every bf16 value, those beside it and beside the middle of two, ties, and random bits."""
    upper = torch.arange(1 << 16, dtype=torch.int64) << 16
    lower = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    bits = torch.cat([(upper[:, None] | lower).flatten(), torch.randint(1 << 32, (1 << 16,))])
    return bits.to(torch.uint32).view(torch.float32)


def cast(x: np.ndarray, source: tl.dtype, target: tl.dtype, how=InterpreterBuilder.cast_impl) -> np.ndarray:
    return how(interpreter.shipped.interpreter_builder, TensorHandle(x, source), target).data


def same(bits: np.ndarray, expected: torch.Tensor) -> torch.Tensor:
    """Whether bf16 bits are those of torch; a NaN equals any NaN."""
    found = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
    return (found.view(torch.int16) == expected.view(torch.int16)) | (found.isnan() & expected.isnan())


def test_rounds_to_bf16_as_torch_does() -> None:
    x = values()
    assert x.isnan().any()
    assert x.isinf().any()
    assert same(cast(x.numpy(), tl.float32, tl.bfloat16), x.bfloat16()).all()


def test_as_shipped_it_does_not() -> None:
    x = values()
    x = x[x.isfinite()]
    found = same(cast(x.numpy(), tl.float32, tl.bfloat16, interpreter.SHIPPED_CAST), x.bfloat16())
    assert 0.3 < found.float().mean() < 0.7  # it truncates


def test_every_bf16_value_keeps_its_value() -> None:
    x = torch.arange(1 << 16).to(torch.uint16).view(torch.bfloat16)
    found = torch.from_numpy(cast(x.view(torch.uint16).numpy(), tl.bfloat16, tl.float32))
    assert torch.equal(found.nan_to_num(nan=7.0), x.float().nan_to_num(nan=7.0))


def test_as_shipped_subnormals_are_lost() -> None:
    subnormal = np.arange(1, 128, dtype=np.uint16)
    found = cast(subnormal, tl.bfloat16, tl.float32, interpreter.SHIPPED_CAST).view(np.float32)
    assert (found != interpreter.from_bf16(subnormal)).all()


def test_products_of_bf16_matrices() -> None:
    a, b = torch.randn(16, 32).bfloat16(), torch.randn(32, 16).bfloat16()
    handles = [TensorHandle(x.view(torch.uint16).numpy(), tl.bfloat16) for x in (a, b)]
    handles.append(TensorHandle(np.zeros((16, 16), np.float32), tl.float32))
    builder = interpreter.shipped.interpreter_builder
    exact = a.double() @ b.double()
    mended = torch.from_numpy(InterpreterBuilder.create_dot(builder, *handles, None, 0).data)
    shipped = torch.from_numpy(interpreter.SHIPPED_DOT(builder, *handles, None, 0).data)
    assert (mended - exact).abs().max() < 1e-4
    assert (shipped - exact).abs().max() > 1e3


def test_a_comparison_is_a_condition() -> None:
    one = TensorHandle(np.array([1]), tl.int64)
    builder = interpreter.shipped.interpreter_builder
    assert builder.create_icmpSLT(one, one).dtype == tl.int1
    assert interpreter.SHIPPED_BINARY(builder, one, one, np.less).dtype == tl.int64
