"""The CUDA graphs that a deployment captures for its decode steps, restated from vLLM 0.33.0.

``config/vllm.py`` (``_set_cudagraph_sizes``) chooses sizes in rows; ``v1/worker/gpu/cudagraph_utils.py`` (``_init_candidates``)
rounds them up to whole requests and leaves out what is larger than the deployment; ``engine/arg_utils.py`` has the defaults of
GPUs with 160 GiB or more.
"""

from validate.paths import dispatch
from validate.preflight.deployment import Deployment

REQUESTS, TOKENS = 1024, 16384  # max_num_seqs and max_num_batched_tokens where neither is given
BLACKWELL, OTHERS = 1024, 512  # rows of the largest graph where none is given
INTERACTIVE = 32  # rows up to which performance_mode interactivity captures every size


def deployed(d: Deployment, q: int) -> dispatch.Deployment:
    """The deployment with ``q`` rows a request, and the sizes whose graphs are captured."""
    every = sizes(d, q)
    requests = d.engine.max_num_seqs or REQUESTS
    kept = [size for size in every if -(-size // q) <= requests and -(-size // q) * q <= every[-1]]
    return dispatch.Deployment(q, tuple(kept))


def sizes(d: Deployment, q: int) -> tuple[int, ...]:
    """Sizes in rows, ascending, as vLLM settles them: those that are given, or its own choice."""
    e = d.engine
    requests, tokens = e.max_num_seqs or REQUESTS, e.max_num_batched_tokens or TOKENS
    if d.captured is not None:
        return tuple(sorted({size for size in d.captured if size <= tokens}))
    given = e.max_cudagraph_capture_size or e.compilation_config.max_cudagraph_capture_size
    ceiling = BLACKWELL if d.capability[0] == 10 else OTHERS
    largest = min(tokens, given or min(2 * requests * q, ceiling))
    small = range(1, min(largest, INTERACTIVE) + 1) if e.performance_mode == "interactivity" else (1, 2, 4)
    found = {size for size in (*small, *range(8, 256, 8), *range(256, largest + 1, 16)) if size <= largest}
    if tokens <= largest:
        found.add(tokens)
    if given is None:  # and whole requests, up to the platform's largest
        found |= {rows for rows in _whole(requests, q, ceiling) if rows <= min(2 * requests * q, ceiling) and rows <= tokens}
    return tuple(sorted(found))


def _whole(requests: int, q: int, ceiling: int) -> set[int]:
    if q == 1:
        return {requests}
    most = min(requests, ceiling)
    counts = {n for n in (1, 2, 4, *range(8, min(most + 1, 256), 8), *range(256, most + 1, 16), most) if n <= most}
    return {n * q for n in counts}
