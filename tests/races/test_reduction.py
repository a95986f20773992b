"""The search that takes one order of steps that commute finds something exactly where the search of all orders does."""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from validate.races.explorer import explore
from validate.races.protocol import Protocol
from validate.races.protocols import PROTOCOLS
from validate.races.system import Load, Skip, System

MAIL, PLAIN = ("box 0", "box 1", "box 2"), "flag"
INSTRUCTIONS = st.one_of(
    st.tuples(st.just("store"), st.sampled_from(MAIL), st.integers(0, 1)),
    st.tuples(st.just("release"), st.sampled_from(MAIL), st.integers(0, 1)),
    st.tuples(st.just("receive"), st.sampled_from(MAIL), st.sampled_from([None, 0, 1])),
    st.tuples(st.just("take"), st.sampled_from(MAIL), st.sampled_from([None, 0, 1])),
    st.tuples(st.just("arm"), st.sampled_from(MAIL), st.sampled_from([None, 0, 1])),
    st.tuples(st.just("load"), st.sampled_from(MAIL), st.sampled_from([None, 0])),
    st.tuples(st.just("raise"), st.just(PLAIN), st.booleans()),
    st.tuples(st.just("wait"), st.just(PLAIN), st.integers(1, 2)),
    st.tuples(st.just("add"), st.just(PLAIN), st.booleans()),
    st.tuples(st.just("fence"), st.just(PLAIN), st.none()),
)
PROGRAMS = st.lists(st.lists(INSTRUCTIONS, min_size=1, max_size=4), min_size=2, max_size=4)


def made(programs: list[list[tuple[str, str, object]]]) -> System:
    system = System()
    for name in MAIL:
        system.mailbox(name, end="any")
    system.cell(PLAIN, 0)
    for number, program in enumerate(programs):
        thread = system.thread(f"thread {number}")
        for what, cell, more in program:
            match what:
                case "store":
                    thread.store(cell, more)
                case "release":
                    thread.store(cell, more, release=True)
                case "receive":
                    thread.receive(cell, more)
                case "take":
                    thread.receive(cell, more)
                    thread.arm(cell, clears=more)
                case "arm":
                    thread.arm(cell, clears=more)
                case "load":
                    thread.load(cell, more)
                case "raise":
                    thread.store(cell, 2, release=bool(more))
                case "wait":
                    thread.wait(cell, lambda value, least=more: value >= least, f"{more}")
                case "add":
                    thread.add(cell, release=bool(more))
                case "fence":
                    thread.fence()
    return system


@settings(max_examples=250, deadline=None)
@given(PROGRAMS)
@example([[("store", "box 0", 0), ("take", "box 0", 0), ("store", "box 1", 0)], [("receive", "box 1", 0), ("store", "box 0", 1)]])
@example(  # the second thread's arming comes late, while the first one's fence lets the third go on
    [
        [("store", "box 0", 0), ("take", "box 0", 0), ("fence", "flag", None), ("raise", "flag", False)],
        [("store", "box 1", 0), ("take", "box 1", 0)],
        [("wait", "flag", 2), ("store", "box 1", 1), ("receive", "box 1", 1), ("store", "box 0", 1)],
    ]
)
@example(  # a deadlock, with arming put off that nobody needs
    [
        [("store", "box 0", 0), ("store", "box 2", 0), ("receive", "box 1", None), ("store", "box 0", 0), ("store", "box 2", 0)],
        [("take", "box 0", 0), ("take", "box 2", 0), ("receive", "box 1", None)],
    ]
)
def test_both_searches_agree_on_small_systems(programs: list[list[tuple[str, str, object]]]) -> None:
    agree(made(programs))


def agree(system: System) -> None:
    """Where the search of all orders comes to an end."""
    whole = explore(system, 5_000, reduce=False)
    if whole.complete or whole.found:
        part = explore(system, 5_000)
        assert bool(part.found) == bool(whole.found), (part.found, whole.found)
        assert part.found or part.states <= whole.states


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(PROTOCOLS), st.data())
def test_both_searches_agree_on_protocols_that_are_not_what_they_should_be(protocol: Protocol, data: st.DataObject) -> None:
    """Up to three instructions of the smallest size lost, said twice or put after the next one."""
    system = protocol.build(**protocol.whole[0])
    for _ in range(data.draw(st.integers(0, 3))):
        program = data.draw(st.sampled_from(system.threads)).program
        if not program or any(isinstance(one, Skip) for one in program):
            continue
        at = data.draw(st.integers(0, len(program) - 1))
        match data.draw(st.sampled_from(["lost", "twice", "late"])):
            case "lost":
                del program[at]
            case "twice":
                program.insert(at, program[at])
            case "late":
                program[at : at + 2] = program[at : at + 2][::-1]
        for place, one in enumerate(program):
            if isinstance(one, Load):
                program[place] = replace(one, since=min(one.since, place))
    agree(system)
