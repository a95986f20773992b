"""How fast the explorer is, and how many states there are: ``python -m validate.races.bench [-k PROTOCOL] [--limit N]``.

Of each protocol the smallest size that is explored, then each of its numbers one and two larger. Beside the states that are
looked at stand those of all orders of steps (reduction.py leaves out most). Ratios of one run; nothing here is a test.
"""

import argparse
from collections.abc import Iterator

from validate.races.explorer import Explored, explore
from validate.races.protocol import Protocol
from validate.races.protocols import PROTOCOLS
from validate.report.tables import markdown

HEAD = ("protocol", "sizes", "states", "states a second", "all orders", "times as many")


def sizes(protocol: Protocol) -> Iterator[dict[str, int]]:
    """Those measured; numbers that must be odd (layers) go up by two."""
    least = dict(protocol.whole[0])
    yield least
    for name in least:
        for more in (1, 2):
            yield least | {name: least[name] + more * (2 if name == "layers" else 1)}
    yield from map(dict, protocol.whole[1:])


def row(protocol: Protocol, of: dict[str, int], limit: int) -> list[object]:
    """A protocol in one size."""
    part, whole = (explore(protocol.build(**of), limit, reduce=reduce) for reduce in (True, False))
    more = f"{whole.states / part.states:.0f}" if part.complete and whole.complete else "-"
    words = ", ".join(f"{name} {value}" for name, value in of.items())
    return [protocol.name, words, _count(part), f"{part.states / max(part.seconds, 1e-9):,.0f}", _count(whole), more]


def main() -> None:
    """Prints the table as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="part of a protocol's name")
    parser.add_argument("--limit", type=int, default=200_000, help="states of one search")
    given = parser.parse_args()
    print(markdown(HEAD, []))
    for one in PROTOCOLS:
        for of in sizes(one) if given.k in one.name else ():
            print(markdown(HEAD, [row(one, of, given.limit)]).splitlines()[-1], flush=True)


def _count(found: Explored) -> str:
    return f"{found.states:,}" if found.complete else f"over {found.states:,}"


if __name__ == "__main__":
    main()
