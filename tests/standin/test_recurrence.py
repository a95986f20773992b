"""The recurrence by chunks of tokens is the recurrence token by token."""

import hypothesis
import torch
from hypothesis import strategies
from torch import Tensor

from validate.standin import recurrence

D = 8
U32 = 2.0**-24


def inputs(length: int, decays: str, seed: int) -> list[Tensor]:
    """[1, 2, T, D] query, key, value, log decay, [1, 2, T] beta, and a state."""
    generator = torch.Generator().manual_seed(seed)
    query, key, value = torch.randn(3, 1, 2, length, D, generator=generator)
    query, key = (x / x.norm(dim=-1, keepdim=True) for x in (query, key))
    share = torch.rand(1, 2, length, D, generator=generator)
    log_decay = {"least": -5 * torch.ones_like(share), "most": -1e-6 * share, "any": -5 * share}[decays]
    beta = torch.rand(1, 2, length, generator=generator)
    return [query, key, value, log_decay, beta, torch.randn(1, 2, D, D, generator=generator)]


def by_token(query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    out = []
    for t in range(query.shape[2]):
        parts = (x[:, :, t] for x in (query, key, value, log_decay.exp(), beta))
        one, state = recurrence.step(state, *parts)
        out.append(one)
    return torch.stack(out, 2), state


def far(chunked: Tensor, exact: Tensor, level: float) -> float:
    return float((chunked.double() - exact).abs().max()) / level


@hypothesis.given(
    length=strategies.integers(1, 70),
    decays=strategies.sampled_from(["least", "most", "any"]),
    seed=strategies.integers(0, 2**31),
)
@hypothesis.settings(deadline=None, max_examples=60)
def test_chunks_equal_tokens(length: int, decays: str, seed: int) -> None:
    """Against float64 by token.

    A log decay of up to 5 * 16 is summed within a chunk, and exp turns its rounding, 80 U32, into a relative error, twice in each
    product of a grown and a shrunk key. Sums over a chunk and over D channels add some: 400 U32 of the largest value contain it.
    """
    given = inputs(length, decays, seed)
    out, state = recurrence.chunked(*given)
    exact, after = by_token(*(x.double() for x in given))
    level = max(1.0, float(given[5].abs().max()), float(given[2].abs().max())) * D**0.5
    assert far(out, exact, level) < 400 * U32
    assert far(state, after, level) < 400 * U32


def test_a_wrong_order_is_found() -> None:
    given = inputs(40, "any", 0)
    wrong = recurrence.chunked(*given[:3], given[3].roll(1, 2), *given[4:])
    assert far(wrong[0], by_token(*(x.double() for x in given))[0], 1.0) > 0.01
