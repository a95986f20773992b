"""What ends badly on a GPU is a verdict, whoever words the error; other errors stay errors."""

import gc

import pytest

from validate.paths import Lost
from validate.paths.vllm.device import _errors_are_verdicts, _no_collection


class DslError(Exception):
    """As CuTe's compiler raises: no RuntimeError."""


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: unspecified launch failure\nmore"),
        RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
        DslError("cudaErrorIllegalAddress"),
        DslError("cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_FAILED"),
    ],
    ids=str,
)
def test_an_error_of_the_gpu_is_a_verdict(error: Exception) -> None:
    with pytest.raises(Lost, match="ended in an error") as found, _errors_are_verdicts():
        raise error
    assert (found.value.check, found.value.count) == ("finished", 1)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("error", [RuntimeError("shape mismatch"), ValueError("CUDA is not asked")], ids=str)
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), _errors_are_verdicts():
        raise error


def test_no_garbage_is_collected_while_a_kernel_polls() -> None:
    seen = []

    def lost() -> None:
        with _no_collection():
            seen.append(gc.isenabled())
            raise Lost(1, "did not end")

    with pytest.raises(Lost):
        lost()
    assert [*seen, gc.isenabled()] == [False, True]
