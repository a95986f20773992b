"""The float64 recurrence that errors are measured from, by the reference's equations.

Two of them run side by side, ``OWN`` by path. Each takes the activated convolution as that path gives it: rounded to bf16 (design
rule 4's rounding point, where a value next to a boundary may fall either side), or in fp32. The convolution keeps nothing, so its
values are held against the exact ones here, one by one (``strays``), and all that follows is judged on them. What is left
between a path and its own yardstick is the recurrence's own fp32 arithmetic, of the same kind in both.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from validate.long_output.drift.heads import HEADS
from validate.long_output.drift.stream import CHANNELS, KEYS, REQUESTS, STEPS, VALUES, Block, split, windows
from validate.numerics.measure import ulp
from validate.reference.kda import corrected, log_decays, recall, unit
from validate.reference.points import U32, Points

OWN = {"specialized": 0, "default": 1}
BF16 = torch.bfloat16


@dataclass(frozen=True)
class Exact:
    """A block in float64; [steps, 2, requests, HEADS, ...], without the 2 where both yardsticks have the same.

    ``strays`` [2]: values of the convolution that are off by more than fp32 and the path's rounding explain.
    """

    log_decay: Tensor
    decay: Tensor
    beta: Tensor
    beta_error: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    strays: Tensor


class Yardstick:
    """``state`` [2, requests, HEADS, VALUES, KEYS] and ``attended`` [2, requests, HEADS, VALUES], float64."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self._inputs = inputs
        self._points = Points("common")
        self.state = torch.zeros(2, REQUESTS, HEADS, VALUES, KEYS, dtype=torch.float64)
        self.taps = torch.zeros(REQUESTS, CHANNELS, 3, dtype=BF16)
        self.decayed = torch.zeros_like(self.state)

    def prepare(self, block: Block, specialized: Tensor, default: Tensor) -> Exact:
        """The block's inputs. Both paths' convolutions [steps * requests, channels] fp32, the default one's with bf16 values."""
        i = self._inputs
        window, self.taps = windows(self.taps, block.x)
        terms = window.double() * i["conv_weight"].double()
        convolved, size = terms.sum(-1), terms.abs().sum(-1)
        gate = torch.sigmoid(convolved)
        activated = convolved * gate
        # Four fused multiply-adds round partial sums no larger than the sum of the terms' sizes, and SiLU's slope is below
        # 1.1. Its exponential turns less than two roundings of its argument into a relative error; 6 more roundings of 2**-24.
        error = U32 * (4.4 * size + (6 + 2 * convolved.abs() * (1 - gate)) * activated.abs())
        given = [specialized.double(), default.double()]
        strays = [
            ((there - activated).abs() > torch.maximum(ulp(activated, dtype), ulp(there, dtype)) / 2 + error).sum()
            for there, dtype in zip(given, (torch.float32, BF16), strict=True)
        ]
        query, key, value = (torch.stack(parts, 1) for parts in zip(*map(split, given), strict=True))
        log_decay = log_decays(block.gate.double().flatten(0, 1), i).view(STEPS, REQUESTS, HEADS, KEYS)
        logits = block.beta.double()
        return Exact(
            log_decay,
            log_decay.exp(),
            torch.sigmoid(logits),
            # As the gate of SiLU: less than two roundings of the exponential's argument, and 4 more.
            U32 * (4 + 2 * logits.abs()),
            unit(query, i["l2_eps"]) * KEYS**-0.5,
            unit(key, i["l2_eps"]),
            value,
            torch.stack(strays),
        )

    def step(self, exact: Exact, n: int) -> None:
        """The block's step ``n``."""
        self.decayed = self.state * exact.decay[n, :, :, None, :]
        self.state = corrected(self.decayed, exact.beta[n], exact.key[n], exact.value[n], self._points)

    def attended(self, exact: Exact, n: int) -> Tensor:
        """What the query of step ``n`` reads from the state after it."""
        return recall(self.state, exact.query[n])[0]
