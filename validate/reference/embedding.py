"""The token embedding over all tensor-parallel ranks.

    out = sum over ranks r of (row of r's shard of the table, if the id lies in it, else 0)

An id outside the vocabulary gives zeros. Read from vLLM 0.33.0: ``model_executor/layers/vocab_parallel_embedding.py``
and ``specialized_decode/cutedsl/common/embedding.py``. Nothing is rounded: all summands but one are +0, which turns a
-0 of the table into +0.
"""

import torch

from validate.model.call import Call, Expected
from validate.reference.points import Points


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``out`` bf16 [ranks, rows, columns]. Inputs: ``ids`` integers [rows], ``table`` bf16 [vocab, columns].

    The last is the whole table, the ranks' shards one after the other.
    """
    ids, table = call.inputs["ids"].long(), call.inputs["table"]
    inside = (ids >= 0) & (ids < len(table))
    rows = torch.where(inside[:, None], table[ids.clamp(0, len(table) - 1)].double(), 0.0)
    if call.shape["tp"] > 1:
        rows = rows + 0.0  # -0 + 0 = +0
    return {"out": Expected(rows, replicated=True, exact=True)}
