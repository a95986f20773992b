"""Seeded numbers that are the same on every machine.

Library normals go through log, cos or ziggurat tables whose last bit depends on the CPU and the version. These draws use
only PCG64's 64-bit integers, integer sums and exact scalings by powers of two, then one rounding.
"""

import hashlib

import numpy as np
import torch
from torch import Tensor

_CHUNK = 1 << 22  # values drawn at a time: bounds the scratch memory to 8 bytes times this
# Four 16-bit uniforms summed: variance 4 * (2**32 - 1) / 12 before scaling.
_BELL_SCALE = float((4 * (2.0**32 - 1) / 12) ** -0.5)


class Draws:
    """One stream of numbers, named by a seed and any further words.

    Two streams with different names are independent; the same name gives the same numbers on every machine.
    """

    def __init__(self, *name: object) -> None:
        digest = hashlib.sha256("/".join(map(str, name)).encode()).digest()
        self._bits = np.random.PCG64(int.from_bytes(digest[:16], "little"))

    def integers(self, shape: tuple[int, ...], low: int, high: int) -> Tensor:
        """int64 in [low, high), uniform but for a bias below 2**-40."""
        raw = self._bits.random_raw(int(np.prod(shape))).reshape(shape)
        return torch.from_numpy(low + (raw >> np.uint64(1)).astype(np.int64) % (high - low))

    def bytes(self, shape: tuple[int, ...]) -> Tensor:
        """uint8, uniform: eight from each 64-bit integer."""
        count = int(np.prod(shape))
        return torch.from_numpy(self._bits.random_raw(-(-count // 8)).view(np.uint8)[:count].reshape(shape))

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        """float64 in [0, 1), 53 bits."""
        raw = self._bits.random_raw(int(np.prod(shape))).reshape(shape)
        return torch.from_numpy((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def bell(self, shape: tuple[int, ...], std: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
        """Bell-shaped numbers of the given standard deviation: the sum of four uniforms, cut at 3.46 deviations.

        Tails beyond that are what ``synthetic`` adds on purpose, as outliers at known places.
        """
        count = int(np.prod(shape))
        out = torch.empty(count, dtype=dtype)
        for start in range(0, count, _CHUNK):
            size = min(_CHUNK, count - start)
            first, second, third, fourth = self._bits.random_raw(size).view(np.uint16).reshape(size, 4).T
            # Added by columns: numpy's sum over a short axis takes seven times as long.
            centred = np.add(first, second, dtype=np.int32) + np.add(third, fourth, dtype=np.int32) - 2 * 65535
            out[start : start + size] = torch.from_numpy(centred.astype(np.float64) * (_BELL_SCALE * std)).to(dtype)
        return out.reshape(shape)

    def permutation(self, n: int) -> Tensor:
        """int64 [n]: a random order of 0 .. n - 1."""
        return torch.from_numpy(np.argsort(self._bits.random_raw(n), kind="stable"))
