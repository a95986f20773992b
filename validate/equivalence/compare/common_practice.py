"""What the common comparison would have found: each arm's token among the other's five best.

As vLLM's own model tests do it (tests/models/utils.py, ``check_logprobs_close``): greedy outputs up to the first token that
differs, where each must be among the other's best; nothing behind it is looked at. No magnitudes. Here for the record, never a
verdict.
"""

from validate.equivalence.compare.arms import Pair
from validate.records.arm import Top

BEST = 5


def finds(pair: Pair) -> int | None:
    """The position at which it would fail the request, None where it passes.

    In a forced request no token is free: there each arm's best token must be among the other's best, at every position.
    """
    first, second = pair.default, pair.specialized
    for position, (one, other) in enumerate(zip(first.top, second.top, strict=False)):
        if first.kind == "forced":
            chosen = _best(one, 1) + _best(other, 1)
        elif first.tokens[position] == second.tokens[position]:
            continue
        else:
            chosen = [first.tokens[position], second.tokens[position]]
        if len(chosen) < 2 or chosen[0] not in _best(other, BEST) or chosen[1] not in _best(one, BEST):
            return position
        if first.kind != "forced":
            return None
    return None


def _best(top: Top, count: int) -> list[int]:
    return list(top.ids[:count])
