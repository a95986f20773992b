"""What FlashInfer's front of its compiled attention core, trtllm-gen, asks of a call. Read from its file; nothing of it runs."""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

NAME = "trtllm_batch_decode_with_kv_cache_mla"
FP8, BF16, INT32 = torch.float8_e4m3fn, torch.bfloat16, torch.int32


def differences(given: dict[str, Any]) -> Iterator[str]:
    """Where the arguments are not those that ``trtllm_batch_decode_with_kv_cache_mla`` (flashinfer 0.7.2) takes, in words.

    Query [requests, q, H, 576], cache [pages, 1, block, 576], block tables [requests, pages], lengths [requests] and the
    output [requests, q, H, 512], each contiguous in its last dimension.
    """
    known, required = parameters()
    yield from (f"it takes no {name}" for name in given if name not in known)
    yield from (f"it wants {name}" for name in required if name not in given)
    requests, q, heads, width = given["query"].shape
    pages, _, block, _ = given["kv_cache"].shape
    columns = given["block_tables"].shape[-1]
    wanted = {
        "query": (FP8, (requests, q, heads, 576)),
        "kv_cache": (FP8, (pages, 1, block, width)),
        "block_tables": (INT32, (requests, columns)),
        "seq_lens": (INT32, (requests,)),
        "out": (BF16, (requests, q, heads, 512)),
    }
    for name, (dtype, shape) in wanted.items():
        tensor = given[name]
        if (tensor.dtype, tuple(tensor.shape)) != (dtype, shape):
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}, it takes {dtype} {shape}"
        elif tensor.stride(-1) != 1:
            yield f"{name} is not contiguous in its last dimension"


@cache
def parameters() -> tuple[frozenset[str], frozenset[str]]:
    """All of its parameters, and those without a default."""
    spec = importlib.util.find_spec("flashinfer")
    assert spec is not None
    file = Path(next(iter(spec.submodule_search_locations or ()))) / "mla/_core.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    front = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == NAME)
    names = [argument.arg for argument in front.args.args]
    return frozenset(names), frozenset(names[: len(names) - len(front.args.defaults)])
