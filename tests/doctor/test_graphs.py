"""The sizes of CUDA graphs against vLLM's own choice, its method run from its file."""

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from validate.doctor import graphs, kimi_k3
from validate.preflight.deployment import Deployment, engine

CONFIG = "vllm/config/vllm.py"
Chooses = Callable[[Deployment, int], tuple[int, ...]]


@pytest.fixture
def vllm_chooses(vllm_source: Path) -> Chooses:
    """vLLM's ``_set_cudagraph_sizes`` on GB300."""
    tree = ast.parse((vllm_source / CONFIG).read_text())
    (method,) = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "_set_cudagraph_sizes"]
    platform = SimpleNamespace(is_device_capability_family=lambda family: family == 100)

    def stand_in(name: str, *_: object) -> Any:
        assert name == "vllm.platforms"
        return SimpleNamespace(current_platform=platform)

    scope: dict[str, Any] = {
        "CUDAGraphMode": SimpleNamespace(NONE="NONE"),
        "logger": SimpleNamespace(warning=lambda *_: None),
    }
    scope["__builtins__"] = vars(__import__("builtins")) | {"__import__": stand_in}
    exec(compile(ast.Module([method], []), CONFIG, "exec"), scope)

    def chosen(d: Deployment, q: int) -> tuple[int, ...]:
        compilation = SimpleNamespace(
            cudagraph_mode="FULL_AND_PIECEWISE",
            cudagraph_capture_sizes=list(d.captured) if d.captured else None,
            max_cudagraph_capture_size=d.engine.max_cudagraph_capture_size,
            post_init_cudagraph_sizes=lambda: None,
        )
        scheduler = SimpleNamespace(
            max_num_seqs=d.engine.max_num_seqs or graphs.REQUESTS,
            max_num_batched_tokens=d.engine.max_num_batched_tokens or graphs.TOKENS,
        )
        config = SimpleNamespace(
            model_config=SimpleNamespace(enforce_eager=False),
            compilation_config=compilation,
            scheduler_config=scheduler,
            uniform_decode_query_len=q,
            speculative_config=None,
            performance_mode=d.engine.performance_mode,
        )
        scope["_set_cudagraph_sizes"](config)
        return tuple(compilation.cudagraph_capture_sizes)

    return chosen


@pytest.mark.parametrize("q", range(1, 9))
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"max_num_seqs": 12},
        {"max_num_seqs": 72},
        {"max_num_seqs": 1},
        {"max_num_batched_tokens": 50},
        {"max_num_batched_tokens": 900, "max_num_seqs": 300},
        {"max_cudagraph_capture_size": 20},
        {"max_cudagraph_capture_size": 256, "max_num_seqs": 100},
        {"performance_mode": "interactivity"},
        {"performance_mode": "interactivity", "max_num_seqs": 5},
        {"cudagraph_capture_sizes": [100, 5, 24, 5]},
        {"cudagraph_capture_sizes": [100, 5, 24], "max_num_batched_tokens": 64},
    ],
    ids=str,
)
def test_sizes_are_those_that_vllm_chooses(vllm_chooses: Chooses, arguments: dict[str, Any], q: int) -> None:
    d = Deployment(engine(arguments), kimi_k3.config())
    assert graphs.sizes(d, q) == vllm_chooses(d, q)


def test_graphs_beyond_the_deployment_are_left_out() -> None:
    """A size whose requests are more than there are, and one that is rounded up beyond the largest."""
    d = Deployment(engine({"cudagraph_capture_sizes": [4, 8, 16], "max_num_seqs": 3}), kimi_k3.config())
    assert graphs.deployed(d, 4).graphs == (4, 8)
    assert graphs.deployed(d, 5).graphs == (5, 10)
    d = Deployment(engine({"cudagraph_capture_sizes": [4, 8]}), kimi_k3.config())
    assert graphs.deployed(d, 5).graphs == (5,)  # 8 is rounded up to 10
