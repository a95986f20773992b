"""Adversaries without a GPU: their own kernels are played on the addresses that they are given, in an order that is chosen.

``waits``: whether the kernel under trial waits for what it reads. One that does runs last, as on a GPU; one that does not, first.
"""

import contextlib
import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("cutlass")

from tests.races.gpu.test_trial import NoGpu, kernel
from validate.paths.emulated.mailbox import arm
from validate.races.gpu import trial
from validate.races.gpu.adversaries import ADVERSARIES
from validate.races.gpu.adversaries.held_back import LATE, held_back, last
from validate.races.gpu.adversaries.successor import SHUT
from validate.races.gpu.bound import Bound, contents
from validate.races.gpu.device import hog, passing, poison, predecessor, scatter, successor
from validate.races.gpu.record import Attempt

Work = Callable[[], None]


class Queues(NoGpu):
    """Three streams, of which nothing runs before it is asked for; and the suite's own kernels, played.

    ``in_order``: a GPU whose kernels end in their stream's order, whatever they wait for.
    """

    multiprocessors, device = 132, torch.device("cpu")

    def __init__(self, waits: bool, in_order: bool = False) -> None:
        self.waits, self.in_order = waits, in_order
        self.main, self.side, self.third = (SimpleNamespace(cuda_stream=number) for number in (1, 2, 3))
        self.queued: list[tuple[str, int, Work]] = []
        self.made: list[str] = []

    def gate(self) -> None: ...

    def sync(self) -> None:
        """What is queued has ended: before a launch of the kernel under trial."""
        self._run()

    def finish(self, bound: Bound) -> None:
        """Everything else before the kernel, or the kernel before everything."""
        mine = [one for one in self.queued if one[0] in ("kernel", "passing")]
        after = [one for one in self.queued if one[0] == "successor"]
        others = [one for one in self.queued if one[0] not in ("kernel", "passing", "successor")]
        waits = self.in_order or (self.waits and not any(name == "passing" for name, *_ in mine))
        self.queued = [*others, *mine, *after] if waits else [*mine, *after, *others]
        self._run()

    def _run(self) -> None:
        for name, _, work in self.queued:
            self.made.append(name)
            work()
        self.queued = []

    def queue(self, name: str, stream: Any, work: Work) -> None:
        self.queued.append((name, int(stream), work))


def words(address: Any, count: int) -> Any:
    return (ctypes.c_uint32 * count).from_address(address.value)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Queues]:
    """Makes queues, which the suite's own kernels then go to."""

    def made(waits: bool, in_order: bool = False) -> Queues:
        queues = Queues(waits, in_order)

        def scattered(target: Any, payload: Any, order: Any, pauses: Any, count: Any, blocks: Any, stream: Any) -> None:
            def work() -> None:
                for index, _ in zip(words(order, count.value), words(pauses, count.value), strict=True):
                    (ctypes.c_uint32).from_address(target.value + 4 * index).value = (
                        (ctypes.c_uint32).from_address(payload.value + 4 * index).value
                    )

            queues.queue("scatter", stream, work)

        def copied(target: Any, source: Any, count: Any, late: Any, stream: Any) -> None:
            queues.queue("predecessor", stream, lambda: ctypes.memmove(target.value, source.value, 4 * count.value) and None)

        def read(target: Any, source: Any, stream: Any) -> None:
            size = 4 * successor.THREADS
            queues.queue("successor", stream, lambda: ctypes.memmove(target.value, source.value, size) and None)

        def took(times: Any, blocks: Any, stream: Any) -> None:
            held = list(words(times, blocks.value))
            queues.queue("hog", stream, lambda: [None for _ in held] and None)

        fakes = {scatter: scattered, predecessor: copied, successor: read, hog: took}
        for module, fake in fakes.items():
            monkeypatch.setattr(module, "compiled", lambda fake=fake: fake)
        poisoned = lambda blocks, stream: queues.queue("poison", stream, lambda: None)  # noqa: E731
        monkeypatch.setattr(poison, "compiled", lambda: poisoned)
        monkeypatch.setattr(passing, "compiled", lambda: lambda stream: queues.queue("passing", stream, lambda: None))
        return queues

    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)
    with contextlib.suppress(AttributeError):
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    return made


def tried(queues: Queues, name: str, repeats: int = 12) -> Attempt:
    direct = kernel()
    bound = Bound(
        lambda: queues.queue("kernel", 1, lambda: direct.launch() and None),
        direct.written,
        direct.refresh,
        direct.late,
        direct.mailbox,
        direct.rows,
    )
    samples = [contents(bound, 10 * n) for n in range(trial.PAYLOADS)]
    assert bound.mailbox is not None
    arm(bound.mailbox)
    right = trial.expected(NoGpu(), kernel(), samples)  # type: ignore[arg-type]
    adversary = ADVERSARIES[name](queues, bound)  # type: ignore[arg-type]
    queues.made.clear()
    return trial.repeated(queues, adversary, samples, repeats, lambda: right)  # type: ignore[arg-type]


OWN = {
    "words": {"scatter"},
    "held-back": {"scatter"},
    "predecessor": {"predecessor"},
    "successor": {"predecessor", "successor", "passing"},
    "poisoned": {"poison"},
    "crowded": {"scatter", "hog"},
    "undisturbed": set(),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_a_kernel_that_waits_is_right_under_each(played: Callable[..., Queues], name: str) -> None:
    queues = played(True)
    assert tried(queues, name) == Attempt(repeats=12)
    assert set(queues.made) == {"kernel", *OWN[name]}


@pytest.mark.parametrize("name", ["words", "held-back", "predecessor", "successor", "crowded"])
def test_a_kernel_that_does_not_wait_is_wrong_under_each(played: Callable[..., Queues], name: str) -> None:
    found = tried(played(False), name)
    assert found.unequal == 12, found
    assert found.first


def test_where_kernels_end_in_order_a_missing_wait_is_never_wrong_and_that_is_said(played: Callable[..., Queues]) -> None:
    found = tried(played(False, in_order=True), "successor")
    assert found == Attempt(repeats=12, shut=SHUT)
    assert SHUT.endswith("right in 20 of 20")


def test_nothing_is_said_where_the_three_were_launched_too_late(
    monkeypatch: pytest.MonkeyPatch, played: Callable[..., Queues]
) -> None:
    queues, finish = played(False, in_order=True), Queues.finish

    def slow(self: Queues, bound: Bound) -> None:
        self.late += 1
        finish(self, bound)

    monkeypatch.setattr(Queues, "finish", slow)
    assert tried(queues, "successor").shut is None


def test_held_back_is_in_turn_a_slot_a_fragment_of_each_row_and_a_word_of_each_row() -> None:
    words = torch.arange(3 * 2 * 16, dtype=torch.int32).view(3, 2, 16)
    counts = [held_back(words, repeat, torch.Generator().manual_seed(repeat)).sum((1, 2)).tolist() for repeat in range(3)]
    assert [sorted(count) for count in counts] == [[0, 0, 32], [0, 0, 8], [0, 0, 2]]


def test_what_is_held_back_comes_last_and_each_thread_waits_once() -> None:
    words = torch.arange(2 * 1 * 16, dtype=torch.int32).view(2, 1, 16)
    held = torch.zeros(words.shape, dtype=torch.bool)
    held[1] = True
    order, first = last(words, held, threads=4)
    assert order[-16:].tolist() == list(range(16, 32))
    assert sorted(order.tolist()) == list(range(32))
    assert first.nonzero().flatten().tolist() == [16, 17, 18, 19]
    assert LATE == 100_000
