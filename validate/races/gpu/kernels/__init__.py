"""vLLM's kernels that one GPU of compute capability 9.0 runs and that wait for something, by name.

Each takes its sizes as keywords and binds itself as the specialized path's providers do. Weights and addresses are the same for
every copy of vLLM's files, so that copies may be held against each other bit for bit.
"""

from collections.abc import Callable, Mapping

from validate.races.gpu.bound import Bound
from validate.races.gpu.kernels import attn_res, dense_situ, embedding, kda, mla, o_proj, route_situ, skinny

KERNELS: Mapping[str, Callable[..., Bound]] = {
    "attn_res": attn_res.bind,
    "route": route_situ.bind_route,
    "situ": route_situ.bind_situ,
    "dense_situ": dense_situ.bind,
    "kda": kda.bind,
    "mla_query": mla.bind_query,
    "mla_value": mla.bind_value,
    "o_proj": o_proj.bind,
    "skinny": skinny.bind,
    "embedding": embedding.bind,
}
