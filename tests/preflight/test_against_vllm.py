"""The restated refusals against vLLM's own ``unsupported()``, run from its file on stand-ins for its configuration."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.preflight.test_findings import VLLM
from validate.doctor import own
from validate.preflight import refusals
from validate.preflight.deployment import Deployment
from validate.preflight.finding import RUNTIME

Deploy = Callable[..., Deployment]
NOT_THERE = ("core",)  # refused elsewhere than in specialized_decode_config()


def test_vllm_takes_what_passes(deploy: Deploy, vllm_source: Path) -> None:
    drafts = {"speculative_config": {"method": "dspark", "num_speculative_tokens": 7}}
    for arguments in ({}, drafts, {"decode_context_parallel_size": 16}):
        assert own.reasons(vllm_source, deploy(arguments)) == []


@pytest.mark.parametrize("name", [name for name in VLLM if name not in NOT_THERE])
def test_vllm_refuses_it_too(deploy: Deploy, vllm_source: Path, name: str) -> None:
    change, _ = VLLM[name]
    assert len(own.reasons(vllm_source, deploy(**change))) == 1


def test_no_check_of_vllm_is_left_out(deploy: Deploy, vllm_source: Path) -> None:
    """As many conditions as in its tuple of checks."""
    import ast

    tree = ast.parse((vllm_source / RUNTIME).read_text())
    (checks,) = (
        node.value.elts
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "checks" and isinstance(node.value, ast.Tuple)
    )
    assert len(list(refusals._unsupported(deploy()))) == len(checks)
