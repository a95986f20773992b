"""Forced requests of three arms as columns: one row a decoded position."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from validate.equivalence.compare.arms import Pair
from validate.equivalence.compare.estimates import apart, known, scale
from validate.equivalence.compare.swings import BANDS

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """[positions] each, in the specialized arm's recording order. ``request`` counts the requests from 0, ``position`` tokens.

    ``specialized`` and ``noise`` are [positions, 5]: the logprob's difference to the default arm, that of the best token, KL,
    what KL may lack, rank changed. ``move``, ``spread`` and ``gap``: estimates.Scale. ``context``: tokens before this one, of
    the prompt and decoded.
    """

    names: tuple[tuple[str, str], ...]
    request: NDArray[np.int64]
    position: NDArray[np.int64]
    context: NDArray[np.int64]
    specialized: Array
    noise: Array
    move: Array
    spread: Array
    gap: Array
    block: int

    def first(self, rows: int) -> "Table":
        """The first rows alone."""
        names = self.names[: int(self.request[rows - 1]) + 1] if rows else ()
        columns = {f.name: getattr(self, f.name)[:rows] for f in fields(self) if f.name not in ("names", "block")}
        return Table(names=names, block=self.block, **columns)

    def largest(self, mask: NDArray[np.bool_]) -> tuple[tuple[str, str], int]:
        """Scene and request, and the position, of the specialized arm's largest difference over scale among these positions."""
        row = int(np.argmax(np.where(mask, np.abs(self.specialized[:, 0]) / self.move, -1.0)))
        return self.names[self.request[row]], int(self.position[row])

    def groups(self) -> dict[str, NDArray[np.bool_]]:
        """All positions, those of each scene, and those of each class of positions: [positions] each."""
        found = {"all": np.ones(len(self.request), dtype=bool)}
        scenes = np.array([scene for scene, _ in self.names])[self.request] if self.names else np.array([], dtype=str)
        for scene in dict.fromkeys(scene for scene, _ in self.names):
            found[f"scene {scene}"] = scenes == scene
        found["first token"] = self.position == 0
        found["second token"] = self.position == 1
        at = (self.context - 1) % self.block  # where the token lies that this step feeds in
        for name, remainder in (("last of a block", self.block - 1), ("first of a block", 0), ("second of a block", 1)):
            found[name] = (at == remainder) & (self.position > 0)
        for start, end in zip(BANDS, (*BANDS[1:], np.iinfo(np.int64).max), strict=True):
            found[f"positions from {start}"] = (self.position >= start) & (self.position < end)
        return {name: mask for name, mask in found.items() if mask.any()}


def table(pairs: list[Pair], block: int) -> Table:
    """Of the forced requests among ``pairs`` whose tokens are the same; ``block``: tokens in a cache block."""
    names, rows = [], []
    for pair in pairs:
        if pair.noise is None:
            continue
        first, others = pair.default, (pair.specialized, pair.noise)
        if first.kind != "forced" or not first.tokens or any(first.tokens != other.tokens for other in others):
            continue
        names.append((first.scene, first.request))
        for n, token in enumerate(first.tokens):
            own = known(token, first.logprobs[n], first.top[n])
            at = scale(token, own)
            row = [len(names) - 1, n, len(first.prompt) + n, at.move, at.spread, at.gap]
            for other in others:
                a = apart(token, own, known(token, other.logprobs[n], other.top[n]))
                row += [a.logprob, a.best, a.kl, a.lacking, a.rank]
            rows.append(row)
    columns = np.array(rows, dtype=np.float64).reshape(-1, 16)
    request, position, context = columns[:, :3].astype(np.int64).T
    return Table(
        names=tuple(names),
        request=request,
        position=position,
        context=context,
        specialized=columns[:, 6:11],
        noise=columns[:, 11:16],
        move=columns[:, 3],
        spread=columns[:, 4],
        gap=columns[:, 5],
        block=block,
    )
