"""Litmus tests: what weak memory lets two threads see, and what fences, releases and acquires forbid.

Names as in the literature (Alglave et al., "Herding cats", 2014): MP message passing, SB store buffering, 2+2W two stores each.
"""

from collections.abc import Callable

import pytest

from validate.races import schedule
from validate.races.explorer import explore, walk
from validate.races.system import ARMED, System, Thread

Pair = Callable[[Thread, Thread], None]


def seen(cells: dict[str, int], programs: Pair, end: dict[str, int] | None = None) -> str | None:
    """The kind of violation that some interleaving has, by every search."""
    system = System()
    for name, start in cells.items():
        system.cell(name, start, (end or {}).get(name))
    programs(system.thread("left"), system.thread("right"))
    kinds = {
        found.violation.kind if (found := explore(system, 10_000, reduce=reduce).found) else None for reduce in (True, False)
    }
    assert len(kinds) == 1
    by_chance = walk(system, 300, seed=0).found
    kind = kinds.pop()
    assert (by_chance.violation.kind if by_chance else None) == kind
    return kind


@pytest.mark.parametrize(
    ("writer", "reader", "kind"),
    [
        ("plain", "acquires", "stale read"),  # flag before data
        ("fence", "acquires", None),
        ("release", "acquires", None),
        ("release", "does not", "stale read"),
        ("fence", "does not", "stale read"),
    ],
)
def test_message_passing(writer: str, reader: str, kind: str | None) -> None:
    def programs(left: Thread, right: Thread) -> None:
        left.store("data", 1)
        if writer == "fence":
            left.fence()
        left.store("flag", 1, release=writer == "release")
        start = len(right.program)
        right.wait("flag", lambda value: value == 1, "the flag")
        right.load("data", expect=1, since=start if reader == "does not" else None)

    assert seen({"data": 0, "flag": 0}, programs) == kind


@pytest.mark.parametrize("fenced", [False, True])
def test_store_buffering(fenced: bool) -> None:
    def programs(left: Thread, right: Thread) -> None:
        for own, other, thread in (("x", "y", left), ("y", "x", right)):
            thread.store(own, 1)
            if fenced:
                thread.fence()
            thread.load(other, into="seen")
            # whoever saw 0 says so: both may, without fences
            thread.when(lambda registers: registers["seen"] == 0, lambda thread=thread: thread.add("zeros", release=False))

    assert seen({"x": 0, "y": 0, "zeros": 0}, programs, {"zeros": 1}) == "left behind"  # that one alone, or none, may be seen

    def both(left: Thread, right: Thread) -> None:
        programs(left, right)
        right.wait("zeros", lambda value: value < 2, "the other to see something")

    assert (seen({"x": 0, "y": 0, "zeros": 0}, both) == "deadlock") is not fenced


def test_stores_to_one_cell_keep_their_order_and_a_thread_sees_its_own() -> None:
    def programs(left: Thread, right: Thread) -> None:
        left.store("x", 1)
        left.store("x", 2)
        left.load("x", expect=2)
        right.wait("x", lambda value: value == 2, "the second")
        right.load("x", expect=2)

    assert seen({"x": 0}, programs, {"x": 2}) is None


def test_an_addition_in_two_accesses_loses_one() -> None:
    def atomic(left: Thread, right: Thread) -> None:
        left.add("n")
        right.add("n")

    def torn(left: Thread, right: Thread) -> None:
        left.load("n", expect=0)
        left.store("n", 1)
        right.add("n")

    assert seen({"n": 0}, atomic, {"n": 2}) is None
    assert seen({"n": 0}, torn, {"n": 2}) is not None


def mailbox(*programs: Callable[[Thread], None]) -> System:
    system = System()
    for name in ("low", "high"):
        system.mailbox(name)
    for number, program in enumerate(programs):
        program(system.thread(f"thread {number}"))
    return system


def send(thread: Thread) -> None:
    thread.store("low", "new")
    thread.store("high", "new")


def test_a_payload_of_two_fragments_is_not_seen_whole_unless_both_are_polled() -> None:
    def polls(thread: Thread) -> None:
        for name in ("low", "high"):
            thread.receive(name, "new", group="row")
            thread.arm(name, clears="new")

    def polls_one(thread: Thread) -> None:
        thread.receive("low", "new")
        thread.load("high", expect="new")

    assert explore(mailbox(send, polls), 1000).found is None
    found = explore(mailbox(send, polls_one), 1000).found
    assert found is not None
    assert found.violation.kind == "stale read"


def test_rows_of_two_generations_are_torn() -> None:
    def again(thread: Thread) -> None:
        thread.store("low", "old")
        thread.receive("low", "old")
        thread.arm("low", clears="old")
        thread.fence()
        thread.store("low", "new")
        thread.store("high", "old")

    def reads(thread: Thread) -> None:
        thread.wait("low", lambda value: value == "new", "the row")
        thread.receive("low", "new", group="row")
        thread.receive("high", "new", group="row")

    found = explore(mailbox(again, reads), 1000).found
    assert found is not None
    assert found.violation.kind == "torn read"


def test_arming_over_what_nobody_read_is_a_lost_update() -> None:
    def arms(thread: Thread) -> None:
        thread.arm("low", clears="old")

    found = explore(mailbox(lambda thread: thread.store("low", "new"), arms), 1000).found
    assert found is not None
    assert found.violation.kind == "lost update"


def test_the_sentinel_is_no_payload() -> None:
    found = explore(mailbox(lambda thread: thread.store("low", ARMED)), 1000).found
    assert found is not None
    assert found.violation.kind == "payload is the sentinel"


def test_a_deadlock_says_who_waits_for_what_and_what_is_not_visible_yet() -> None:
    def polls(thread: Thread) -> None:
        thread.receive("high", "new")

    system = mailbox(polls, lambda thread: thread.receive("low", "new"))
    found = explore(system, 1000).found
    assert found is not None
    assert found.violation.text == (
        "thread 0 waits for a payload in high, which holds armed; thread 1 waits for a payload in low, which holds armed"
    )

    def looks(thread: Thread) -> None:
        thread.store("low", "new")
        thread.load("low", expect="old")

    late = mailbox(looks)
    wrong = explore(late, 1000).found
    assert wrong is not None
    assert schedule.replay(late, wrong.schedule).lines[-1] == "thread 0: low = new is not visible yet"
