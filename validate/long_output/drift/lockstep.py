"""Both paths and their float64 yardsticks over one stream, a step at a time."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from validate.long_output.drift.bound import Bound
from validate.long_output.drift.heads import HEADS
from validate.long_output.drift.stream import KEYS, REQUESTS, STEPS, Stream
from validate.long_output.drift.subject import Subject, default
from validate.long_output.drift.track import Track, sampled
from validate.long_output.drift.yardstick import OWN, Exact, Yardstick

# Rule 2 of the design: an error may be twice the default path's.
TIMES = 2.0
HALF_BF16 = 2.0**-8  # the default path's output is rounded to bf16: half an ulp is at most so much of the value


class Lockstep:
    """``tracks``: of every subject by name.

    The default path is always run, and the others are held against it; the first of these is the specialized path.
    ``strays`` [2]: of the specialized and the default path's convolutions (``yardstick``).
    """

    def __init__(self, stream: Stream, subjects: Sequence[Subject]) -> None:
        self.stream = stream
        self.subjects: list[Subject] = [default(stream.inputs), *subjects]
        self.tracks = {subject.name: Track() for subject in self.subjects}
        self.blocks = 0
        self.strays = torch.zeros(2, dtype=torch.int64)
        self.forgotten = torch.zeros(HEADS, KEYS, dtype=torch.float64)
        self._largest = torch.zeros(2, HEADS, dtype=torch.float64)  # errors of the default path's state and output so far
        self._yardstick = Yardstick(stream.inputs)
        self._bound = Bound(REQUESTS, HEADS)

    @property
    def steps(self) -> int:
        """Steps so far."""
        return self.blocks * STEPS

    @property
    def memory(self) -> list[float]:
        """[heads]: steps over which a channel decays to 1 / e by the decays met so far, in the mean of a head's channels."""
        return (self.steps * REQUESTS / -self.forgotten).mean(-1).tolist()

    def block(self) -> None:
        """The next ``STEPS`` steps."""
        with torch.inference_mode():
            drawn = self.stream.block(self.blocks)
            prepared = [subject.prepare(drawn) for subject in self.subjects]
            exact = self._yardstick.prepare(drawn, prepared[1].activated, prepared[0].activated)
            bounds = self._bound.prepare(exact)
            self.strays += exact.strays
            self.forgotten += exact.log_decay.sum((0, 1))
            lost = {subject.name: torch.zeros(HEADS, dtype=torch.float64) for subject in self.subjects}
            for n in range(STEPS):
                for subject, inputs in zip(self.subjects, prepared, strict=True):
                    subject.step(inputs, n)
                    # 0, and no number from the first output on that holds none: outputs between two samples are looked at so.
                    lost[subject.name] += 0 * subject.attended.double().sum((0, 2))
                self._yardstick.step(exact, n)
                self._bound.step(exact, bounds, n, self._yardstick.decayed, self._yardstick.state)
                step = self.steps + n + 1
                if sampled(step):
                    self._sample(step, exact, n, lost)
        self.blocks += 1

    def _sample(self, step: int, exact: Exact, n: int, lost: dict[str, Tensor]) -> None:
        bound, state = self._bound, self._yardstick.state
        attended, query = self._yardstick.attended(exact, n), exact.query[n].norm(dim=-1)
        size, scale = _over_requests(bound.size), _over_requests(bound.size * query)
        rounded = torch.zeros_like(query)
        rounded[OWN["default"]] = HALF_BF16 * attended[OWN["default"]].norm(dim=-1)
        # [2 yardsticks, state and output, heads]: what all steps, and what any one of them, may have added.
        most, floor = (
            torch.stack([_over_requests(e) / size, _over_requests(bound.output(exact, n, e, rounded)) / scale], 1)
            for e in (bound.state, bound.single)
        )
        beside = torch.full_like(most[0], torch.inf)
        for subject in self.subjects:
            default = subject is self.subjects[0]
            own = OWN["default" if default else "specialized"]
            off = (subject.state[1:] - state[own]).norm(dim=(-2, -1)).norm(dim=0) / size[own]
            output = (subject.attended - attended[own]).norm(dim=-1).norm(dim=0) / scale[own]
            errors = torch.stack([off, output + lost[subject.name]])
            self.tracks[subject.name].add(step, torch.cat([errors, most[own], beside]))
            if default:  # the others are held against it
                self._largest = torch.maximum(self._largest, errors)
                beside = torch.maximum(TIMES * self._largest, floor[OWN["specialized"]])

    def drop(self, name: str) -> None:
        """Runs a subject no further; its track stays."""
        self.subjects = [subject for subject in self.subjects if subject.name != name]

    def kept(self) -> dict[str, Any]:
        """All that goes on to the next block."""
        return {
            "blocks": self.blocks,
            "strays": self.strays,
            "forgotten": self.forgotten,
            "largest": self._largest,
            "yardstick": {"state": self._yardstick.state, "taps": self._yardstick.taps},
            "bound": self._bound.kept(),
            "subjects": {subject.name: subject.kept() for subject in self.subjects},
            "tracks": {name: track.kept() for name, track in self.tracks.items()},
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Goes on from what ``kept`` gave, with the same subjects."""
        self.blocks, self.strays, self.forgotten = kept["blocks"], kept["strays"], kept["forgotten"]
        self._largest = kept["largest"]
        self._yardstick.state, self._yardstick.taps = kept["yardstick"]["state"], kept["yardstick"]["taps"]
        self._bound.restore(kept["bound"])
        self.subjects = [subject for subject in self.subjects if subject.name in kept["subjects"]]
        for subject in self.subjects:
            subject.restore(kept["subjects"][subject.name])
        for name, track in self.tracks.items():
            track.restore(kept["tracks"][name])


def _over_requests(norms: Tensor) -> Tensor:
    """[2, heads] of [2, requests, heads]."""
    return norms.norm(dim=1)
