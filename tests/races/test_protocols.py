"""Every protocol is sound in all interleavings of its smallest size; every fault planted in it is found, minimal and replayable.

``nox -s races`` searches the larger sizes.
"""

import pytest

from validate.races import schedule
from validate.races.explorer import explore, walk
from validate.races.protocol import Fault, Protocol
from validate.races.protocols import PROTOCOLS

PLANTED = [pytest.param(one, fault, id=f"{one.name}-{fault.name}") for one in PROTOCOLS for fault in one.faults]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
def test_no_interleaving_goes_wrong(protocol: Protocol) -> None:
    explored = explore(protocol.build(**protocol.whole[0]), 500_000)
    assert explored.complete
    assert explored.found is None


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
def test_no_random_schedule_goes_wrong_beyond(protocol: Protocol) -> None:
    assert walk(protocol.build(**protocol.beyond), 5, seed=0).found is None


@pytest.mark.parametrize(("protocol", "fault"), PLANTED)
def test_a_planted_fault_is_found(protocol: Protocol, fault: Fault) -> None:
    system = protocol.build(**protocol.whole[0], fault=fault.name)
    found = explore(system, 500_000).found
    assert found is not None
    steps = schedule.parse(schedule.text(schedule.minimal(system, found.schedule)))
    replayed = schedule.replay(system, steps)
    assert replayed.possible
    assert replayed.violation is not None
    assert replayed.violation.kind == found.violation.kind
    for at in range(len(steps)):  # minimal: without any one step it does not come to that
        without = schedule.replay(system, steps[:at] + steps[at + 1 :])
        assert not (without.possible and without.violation and without.violation.kind == found.violation.kind)
