"""An mbarrier's phase ends with its last arrival and its last announced byte, in whatever order, and not before it is there."""

import pytest

from validate.races.explorer import explore
from validate.races.machine import Violation
from validate.races.mbarrier import mbarrier
from validate.races.system import System


def outcome(*, expect: int, sent: int, fenced: bool = True) -> Violation | None:
    """A receiver that announces ``expect`` bytes, and a sender of data and ``sent`` bytes."""
    system = System()
    bar, data, there = mbarrier(system, "mbarrier"), system.cell("data", "none"), system.cell("there", 0)
    receiver, sender = system.thread("receiver"), system.thread("sender")
    bar.initialise(receiver, 1)
    if fenced:
        receiver.fence()
    receiver.store(there, 1)
    bar.arrive(receiver, expect=expect)
    bar.wait(receiver)
    receiver.load(data, "data")
    sender.wait(there, lambda value: value == 1, "the mbarrier")
    sender.store(data, "data")
    bar.complete(sender, sent)
    found = explore(system, 10_000).found
    return found.violation if found else None


def test_bytes_may_come_before_or_after_they_are_announced() -> None:
    assert outcome(expect=16, sent=16) is None


@pytest.mark.parametrize(("expect", "kind"), [(0, "stale read"), (32, "deadlock")])
def test_another_number_of_bytes_is_found(expect: int, kind: str) -> None:
    wrong = outcome(expect=expect, sent=16)
    assert wrong is not None
    assert wrong.kind == kind


def test_bytes_before_the_initialisation_are_found() -> None:
    wrong = outcome(expect=16, sent=16, fenced=False)
    assert wrong is not None
    assert wrong.kind == "lost update"


def test_a_wait_for_the_other_parity_passes_at_once() -> None:
    system = System()
    bar, thread = mbarrier(system, "mbarrier"), system.thread("thread")
    bar.initialise(thread, 2)
    thread.fence()
    bar.arrive(thread)
    bar.wait(thread, 1)
    assert explore(system, 100).found is None


@pytest.mark.parametrize(("fenced", "wrong"), [(True, None), (False, "lost update")])
def test_an_arrival_by_the_thread_that_initialises_is_no_fence(fenced: bool, wrong: str | None) -> None:
    system = System()
    bar, there = mbarrier(system, "mbarrier"), system.cell("there", 0)
    receiver, sender = system.thread("receiver"), system.thread("sender")
    bar.initialise(receiver, 1, expect=16)
    if fenced:
        receiver.fence()
    receiver.add(there, release=False)
    bar.wait(receiver)
    sender.wait(there, lambda value: value == 1, "the mbarrier")
    bar.complete(sender, 16)
    found = explore(system, 10_000).found
    assert (found.violation.kind if found else None) == wrong
