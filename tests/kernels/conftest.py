"""vLLM's sources, as for the tests that run its kernels."""

from tests.paths.conftest import vllm_source

__all__ = ["vllm_source"]
