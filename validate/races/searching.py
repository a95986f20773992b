"""Which searches a run makes, and one of them."""

import re
from collections.abc import Iterator

from validate import keywords
from validate.errors import InputError
from validate.races import schedule
from validate.races.explorer import Found, explore, walk
from validate.races.protocol import Protocol, Sizes
from validate.races.protocols import PROTOCOLS
from validate.races.record import Asked, Explored, Search
from validate.races.system import System

SIZE = re.compile("[1-9][0-9]{0,2}|0")


def protocol(name: str) -> Protocol:
    """By its name. InputError lists them if there is none."""
    for one in PROTOCOLS:
        if one.name == name:
            return one
    raise InputError(f"there is no protocol {name}: {', '.join(one.name for one in PROTOCOLS)}")


def fault(name: str) -> tuple[Protocol, str]:
    """By ``protocol.fault``. InputError lists the protocol's if there is none."""
    of, _, planted = name.partition(".")
    found = protocol(of)
    if planted not in (names := [one.name for one in found.faults]):
        raise InputError(f"{of} has no fault '{planted}': {', '.join(names)}")
    return found, planted


def sizes(of: Protocol, words: str) -> dict[str, int]:
    """From ``ranks=2,layers=3``. InputError unless every size of the protocol is given, and no other."""
    named = dict(word.partition("=")[::2] for word in words.split(","))
    wanted = dict(of.beyond)
    if set(named) != set(wanted) or not all(SIZE.fullmatch(value) for value in named.values()):
        raise InputError(
            f"'{words}' gives no sizes of {of.name}: {','.join(f'{name}={value}' for name, value in wanted.items())} would"
        )
    return {name: int(value) for name, value in named.items()}


def built(of: Protocol, sizes: Sizes, planted: str | None) -> System:
    """InputError where a protocol has no such sizes, as no chain of TP 4."""
    try:
        return of.build(**sizes, fault=planted)
    except (ArithmeticError, LookupError) as error:
        words = ",".join(f"{name}={value}" for name, value in sizes.items())
        likely = ",".join(f"{name}={value}" for name, value in of.whole[0].items())
        raise InputError(f"{of.name} cannot be built of {words}: {likely} would do") from error


def searches(asked: Asked) -> list[Search]:
    """Of the sound protocols, of one with a fault planted, or of every fault. InputError if nothing is selected."""
    word = asked.keyword
    chosen = [one for one in PROTOCOLS if word in (None, one.name) or keywords.matches(word or "", one.name)]
    if asked.plant:
        return list(_of(*fault(asked.plant)))
    if not chosen:
        raise InputError(f"-k '{asked.keyword}' selects none of the protocols {', '.join(one.name for one in PROTOCOLS)}")
    if asked.faults:
        return [_whole(one, of.name, one.whole[0]) for one in chosen for of in one.faults]
    return [search for one in chosen for search in _of(one, None)]


def run(search: Search, asked: Asked) -> Explored:
    """Looks, and makes a counterexample short."""
    of = protocol(search.protocol)
    system = of.build(**search.sizes, fault=search.fault)
    made = walk(system, asked.walks, seed=0) if search.how == "random" else explore(system, asked.limit)
    found = Explored(search=search, states=made.states, steps=made.steps, seconds=made.seconds, complete=made.complete)
    return _told(found, system, made.found) if made.found else found


def _told(explored: Explored, system: System, found: Found) -> Explored:
    short = schedule.minimal(system, found.schedule)
    replayed = schedule.replay(system, short)
    assert replayed.violation is not None
    update = {"kind": replayed.violation.kind, "text": replayed.violation.text}
    return explored.model_copy(update=update | {"schedule": schedule.text(short), "trace": replayed.lines})


def _whole(one: Protocol, planted: str | None, sizes: Sizes) -> Search:
    return Search(protocol=one.name, fault=planted, how="every interleaving", sizes=dict(sizes))


def _of(one: Protocol, planted: str | None) -> Iterator[Search]:
    for sizes in one.whole:
        yield _whole(one, planted, sizes)
    yield Search(protocol=one.name, fault=planted, how="random", sizes=dict(one.beyond))
