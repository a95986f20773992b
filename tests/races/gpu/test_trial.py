"""Repeats without a GPU: a stand-in for a kernel that adds up a mailbox and a late input, sound and with faults."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from validate.paths.emulated.mailbox import SENTINEL, arm
from validate.races.gpu import trial
from validate.races.gpu.adversaries.adversary import Adversary, Undisturbed
from validate.races.gpu.bench import Hung
from validate.races.gpu.bound import Bound, Contents, contents, draw, poison, region, unarmed
from validate.races.gpu.record import Attempt

ROWS, WIDTH = 2, 128  # of which the late row's fill more than one alignment


class NoGpu:
    """Stands for the bench: all ends at once, or never."""

    hangs_at: int | None = None
    launches = late = 0

    def sync(self) -> None: ...

    def finish(self, bound: Bound) -> None:
        self.launches += 1
        if self.launches == self.hangs_at:
            raise Hung("did not end within 5 s")


def kernel(read: Callable[[Tensor], Tensor] = lambda row: row, rearm: bool = True) -> Bound:
    """Adds the late row and the mailbox's two slots, and counts its calls in a state that the trial puts back."""
    mailbox = torch.empty(2, 4, WIDTH, dtype=torch.bfloat16)
    late, (row,) = region(torch.device("cpu"), [((ROWS, WIDTH), torch.bfloat16)])
    out, state = torch.empty(ROWS, WIDTH), torch.empty(1)

    def launch() -> None:
        out.copy_(read(row).float() + mailbox[:, :ROWS].float().sum(0))
        state.add_(1)
        if rearm:
            arm(mailbox)

    def refresh(seed: int) -> None:
        poison(out)
        draw(seed, row, state)
        arm(mailbox)
        draw(seed + 1, mailbox[:, :ROWS])

    return Bound(launch, {"out": out, "state": state}, refresh, late, mailbox, ROWS)


class Late(Adversary):
    """Delivers everything by itself, as those on a GPU do: sound kernels find it."""

    delivers = writes_late = True

    def run(self, contents: Contents, repeat: int) -> None:
        assert self.bound.mailbox is not None
        assert self.bound.late is not None
        assert contents.mailbox is not None
        assert contents.late is not None
        assert unarmed(self.bound.mailbox) == 0
        self.bound.mailbox.copy_(contents.mailbox)
        self.bound.late.copy_(contents.late)
        self.bound.launch()


class TooLate(Late):
    """What a missing wait comes to: the kernel runs before its late input is there."""

    def run(self, contents: Contents, repeat: int) -> None:
        assert self.bound.late is not None
        stale = self.bound.late.clone()
        super().run(Contents(stale, contents.mailbox, contents.written), repeat)


def tried(bound: Bound, made: type[Adversary], repeats: int = 9, bench: Any = None) -> Attempt:
    bench = bench or NoGpu()
    samples = [contents(bound, 10 * n) for n in range(trial.PAYLOADS)]
    arm(bound.mailbox)  # type: ignore[arg-type]
    right = trial.expected(NoGpu(), kernel(), samples)  # type: ignore[arg-type]
    return trial.repeated(bench, made(bench, bound), samples, repeats, lambda: right)


@pytest.mark.parametrize("made", [Undisturbed, Late])
def test_a_sound_kernel_is_right_each_time(made: type[Adversary]) -> None:
    assert tried(kernel(), made) == Attempt(repeats=9)


def test_a_stale_read_shows_each_time_for_every_payload_is_another() -> None:
    found = tried(kernel(), TooLate)
    assert (found.unequal, found.first) == (9, True)
    assert found.detail is not None
    assert "bytes of out differ" in found.detail


def test_a_stale_read_does_not_show_undisturbed() -> None:
    assert not tried(kernel(), Undisturbed).wrong


def test_a_mailbox_that_is_not_armed_again_is_counted_and_armed_for_the_next() -> None:
    found = tried(kernel(rearm=False), Late)
    assert (found.unequal, found.unarmed) == (0, 9)


def test_repeats_that_were_launched_too_late_are_counted_of_this_attempt_only() -> None:
    class Slow(NoGpu):
        late = 5

        def finish(self, bound: Bound) -> None:
            self.late += 1

    assert tried(kernel(), Late, bench=Slow()).late == 9


def test_one_bit_is_enough() -> None:
    def flipped(row: Tensor) -> Tensor:
        return row + torch.tensor(2.0**-6, dtype=torch.bfloat16)

    assert tried(kernel(flipped), Late).unequal == 9


def test_a_hang_ends_the_trial_and_is_told() -> None:
    bench = NoGpu()
    bench.hangs_at = 4
    found = tried(kernel(), Late, bench=bench)
    assert (found.repeats, found.hung, found.detail) == (3, True, "did not end within 5 s")


def test_a_cuda_error_is_a_verdict_and_another_error_is_none() -> None:
    class Breaks(Late):
        says = "CUDA error: an illegal memory access was encountered"

        def run(self, contents: Contents, repeat: int) -> None:
            raise RuntimeError(self.says)

    assert tried(kernel(), Breaks).error == Breaks.says
    Breaks.says = "operands of other shapes"
    with pytest.raises(RuntimeError, match="other shapes"):
        tried(kernel(), Breaks)


def test_a_region_is_one_allocation_of_aligned_parts() -> None:
    words, (one, two) = region(torch.device("cpu"), [((3,), torch.bfloat16), ((2, 2), torch.int64)])
    two.fill_(-1)
    one.fill_(1.0)
    assert two.data_ptr() - words.data_ptr() == 256
    assert int((words == -1).sum()) == 8
    assert words.numel() == 128


def test_the_words_of_a_payload_leave_out_other_rows() -> None:
    bound = kernel()
    assert bound.mailbox is not None
    bound.mailbox.zero_()
    bound.mailbox.view(torch.int32).view(-1)[bound.words().flatten()] = SENTINEL
    assert (bound.mailbox[:, :ROWS].view(torch.int32) == SENTINEL).all()
    assert (bound.mailbox[:, ROWS:] == 0).all()
