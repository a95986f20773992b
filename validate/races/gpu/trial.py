"""Repeats of a kernel under an adversary, each with another payload, held against undisturbed results bit for bit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from validate.paths.emulated.mailbox import arm
from validate.paths.vllm.device import CUDA_ERRORS
from validate.races.gpu.adversaries.adversary import Adversary, Undisturbed
from validate.races.gpu.bench import Bench, Hung
from validate.races.gpu.bound import Bound, Contents, unarmed
from validate.races.gpu.judging import Repeat, attempt
from validate.races.gpu.record import Attempt

PAYLOADS = 4  # that follow each other: what a stale read finds is another's


@dataclass(frozen=True)
class Result:
    """What a launch left: copies of what it wrote, words of the mailbox that are not armed, what the adversary saw."""

    written: Mapping[str, Tensor]
    unarmed: int
    seen: str | None


def once(bench: Bench, adversary: Adversary, samples: Sequence[Contents], repeat: int) -> Result:
    """One launch with this repeat's payload, where the last one's was. Hung if it does not end."""
    bound = adversary.bound
    now, before = samples[repeat % len(samples)], samples[(repeat - 1) % len(samples)]
    for name, tensor in bound.written.items():
        tensor.copy_(now.written[name])
    if bound.late is not None:
        late = (before if adversary.writes_late else now).late
        assert late is not None
        bound.late.copy_(late)
    if bound.mailbox is not None and not adversary.delivers:
        assert now.mailbox is not None
        bound.mailbox.copy_(now.mailbox)
    bench.sync()
    adversary.run(now, repeat)
    bench.finish(bound)
    left = 0
    if bound.mailbox is not None and (left := unarmed(bound.mailbox)):
        arm(bound.mailbox)
    return Result({name: tensor.clone() for name, tensor in bound.written.items()}, left, adversary.seen())


def expected(bench: Bench, bound: Bound, samples: Sequence[Contents]) -> list[Result]:
    """Undisturbed results, a payload each."""
    adversary = Undisturbed(bench, bound)
    return [once(bench, adversary, samples, repeat) for repeat in range(len(samples))]


def repeated(
    bench: Bench, adversary: Adversary, samples: Sequence[Contents], repeats: int, wanted: Callable[[], Sequence[Result]]
) -> Attempt:
    """So many repeats. ``wanted`` is asked for the undisturbed results after the first, which is its kernel's first launch."""
    done: list[Repeat] = []
    hung = error = None
    shut = adversary.shut()
    late = bench.late
    try:
        first = once(bench, adversary, samples, 0)
        right = wanted()
        done.append(compared(first, right[0]))
        for repeat in range(1, repeats):
            done.append(compared(once(bench, adversary, samples, repeat), right[repeat % len(right)]))
    except Hung as caught:
        hung = str(caught)
    except Exception as caught:  # torch's are RuntimeErrors, those of CuTe's launches are not
        if not any(mark in str(caught) for mark in CUDA_ERRORS):
            raise
        error = str(caught).splitlines()[0]
    return attempt(done, hung, error, bench.late - late, shut)


def compared(got: Result, right: Result) -> Repeat:
    """Which bits of a result differ."""
    wrong = []
    for name, tensor in got.written.items():
        differ = int((_bytes(tensor) != _bytes(right.written[name])).sum())
        if differ:
            wrong.append(f"{differ} of {tensor.nbytes} bytes of {name} differ")
    if got.seen:
        wrong.append(got.seen)
    return Repeat(unequal="; ".join(wrong) or None, unarmed=got.unarmed)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.view(torch.uint8)
