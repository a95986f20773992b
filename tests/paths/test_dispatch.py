"""Which steps run specialized: by hand, and against vLLM's own ``plan()`` where its source is at hand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.doctor import own
from validate.model.decoding import Request
from validate.paths.dispatch import PREPARED, Deployment, captured_as, plan


def decoding(count: int, q: int = 1) -> tuple[Request, ...]:
    return (Request(q),) * count


@pytest.mark.parametrize(
    ("requests", "deployment", "specialized", "rows", "reason"),
    [
        (decoding(1), Deployment(), True, 1, ""),
        (decoding(3), Deployment(), True, 4, ""),  # padded to a graph
        (decoding(64), Deployment(), True, 64, ""),
        (decoding(65), Deployment(), False, 65, "more rows than the largest graph"),
        (decoding(65), Deployment(captured=(64, 128)), False, 128, "no prepared kernels for this size"),
        ((*decoding(3), Request(5, prompt=True)), Deployment(), False, 8, "prompt rows"),
        ((Request(1, prompt=True),), Deployment(), False, 1, "prompt rows"),  # a prompt of one token
        (decoding(2, q=8), Deployment(q=8), True, 16, ""),
        (decoding(8, q=8), Deployment(q=8), True, 64, ""),
        ((Request(8), Request(3)), Deployment(q=8), False, 11, "partial drafts"),
        (decoding(4), Deployment(q=8), False, 4, "partial drafts"),  # nothing drafted
        (decoding(2, q=5), Deployment(q=5, captured=(1, 2, 4, 8)), True, 10, ""),  # 8 rounds up to 10
        (decoding(12), Deployment(captured=(1, 24)), True, 24, ""),  # captured beyond the fixed sizes
    ],
)
def test_plan(requests, deployment, specialized, rows, reason) -> None:
    found = plan(requests, deployment)
    assert (found.specialized, found.rows, found.reason) == (specialized, rows, reason)


@given(st.integers(1, 8), st.lists(st.integers(1, 128), min_size=1, max_size=12))
def test_a_specialized_step_has_prepared_kernels_and_whole_requests(q: int, captured: list[int]) -> None:
    deployment = Deployment(q, tuple(captured))
    for rows in deployment.graphs:
        found = captured_as(rows, deployment)
        assert not found.specialized or (rows <= PREPARED[-1] and rows % q == 0)


@pytest.mark.parametrize("q", [1, 2, 4, 5, 8])
def test_captured_as_agrees_with_vllm(q: int, vllm_source: Path) -> None:
    planned, deployment = own.planner(vllm_source), Deployment(q)
    for rows in range(1, 130):
        assert planned(rows, deployment) == captured_as(rows, deployment).specialized, rows
