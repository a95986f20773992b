"""vLLM's sources, for the tests that run or read them."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def vllm_source() -> Path:
    """The folder that holds ``vllm/`` of version 0.33.0; nox -s tests downloads it."""
    root = os.environ.get("K3_PARITY_VLLM_SRC")
    if not root:
        pytest.skip("vLLM's source is not at hand: set K3_PARITY_VLLM_SRC to an unpacked wheel of 0.33.0")
    return Path(root)
