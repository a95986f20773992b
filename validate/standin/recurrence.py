"""KDA's recurrence in fp32, token by token and by chunks of tokens.

    S_t = S_{t-1} exp(g_t) + u_t k_t^T      u_t = beta_t (v_t - S_{t-1} exp(g_t) k_t)      o_t = S_t q_t

(Kimi Linear, arXiv 2510.26692, section 3; S is [value, key], exp(g) scales its keys.) Within a chunk, with G the sums of g from
the chunk's first token on, S_t = S_0 exp(G_t) + sum_{s <= t} u_s (k_s exp(G_t - G_s))^T, so that the u of a chunk solve a unit
triangular system.
"""

import torch
from torch import Tensor

# exp(-G) of a whole chunk must be finite in fp32: the log decay of a token is -5 or more (``Dimensions.gate_lower_bound``),
# and exp(5 * 16) is 6e34.
CHUNK = 16


def step(state: Tensor, query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """One token: output [n, H, V] and new state [n, H, V, K]. ``query``, ``key``, ``decay`` = exp(g): [n, H, K]; beta [n, H]."""
    state = state * decay[:, :, None]
    update = (value - (state * key[:, :, None]).sum(-1)) * beta[..., None]
    state = state + update[..., None] * key[:, :, None]
    return (state * query[:, :, None]).sum(-1), state


def chunked(query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """All tokens: outputs [n, H, T, V] and the last state [n, H, V, K]. Inputs [n, H, T, K or V], ``beta`` [n, H, T]."""
    length = query.shape[2]
    padding = -length % CHUNK
    if padding:  # tokens without decay, key and update leave the state alone
        query, key, value, log_decay = (torch.nn.functional.pad(x, (0, 0, 0, padding)) for x in (query, key, value, log_decay))
        beta = torch.nn.functional.pad(beta, (0, padding))
    query, key, value, log_decay = (x.unflatten(2, (-1, CHUNK)) for x in (query, key, value, log_decay))
    beta = beta.unflatten(2, (-1, CHUNK))[..., None]
    sums = log_decay.cumsum(3)
    grown, shrunk = sums.exp(), (-sums).exp()
    ahead, behind = key * grown, key * shrunk
    system = torch.eye(CHUNK, device=key.device) + beta * (ahead @ behind.mT).tril(-1)
    right = torch.cat([beta * value, beta * ahead], -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    free, bound = solved.split((value.shape[-1], key.shape[-1]), -1)
    asked = query * grown
    scores = (asked @ behind.mT).tril()
    last = sums[:, :, :, -1:]
    kept, ending = last.exp(), key * (last - sums).exp()
    out = []
    for n in range(query.shape[2]):
        update = free[:, :, n] - bound[:, :, n] @ state.mT
        out.append(asked[:, :, n] @ state.mT + scores[:, :, n] @ update)
        state = state * kept[:, :, n] + update.mT @ ending[:, :, n]
    return torch.cat(out, 2)[:, :, :length], state
