"""Which cases run: by keyword, and small subsets that still meet every size and every kind of input."""

from collections.abc import Iterable, Sequence

from validate.errors import InputError
from validate.keywords import matches
from validate.numerics.case import Case


def select(cases: Iterable[Case], expression: str | None) -> list[Case]:
    """The cases that match, each once. A case's whole id selects that case alone. InputError if none does."""
    by_id = {case.id: case for case in cases}
    if expression is None:
        return list(by_id.values())
    if expression in by_id:
        return [by_id[expression]]
    found = [case for name, case in by_id.items() if matches(expression, name)]
    if not found:
        example = next(iter(by_id), "none")
        raise InputError(f"-k '{expression}' selects none of the {len(by_id)} cases; their names look like {example}")
    return found


def cover(cases: Sequence[Case]) -> list[Case]:
    """A few cases of each stage that together meet every value of every size, and every kind of input, of it."""
    chosen: list[Case] = []
    for stage in dict.fromkeys(case.stage for case in cases):
        traits = {case.id: _traits(case) for case in cases if case.stage == stage}
        left = set().union(*traits.values())
        own = [case for case in cases if case.stage == stage]
        while left:
            best = max(own, key=lambda case: len(traits[case.id] & left))
            left -= traits[best.id]
            chosen.append(best)
    return chosen


def _traits(case: Case) -> set[tuple[str, int | str]]:
    return {*case.sizes.items(), ("inputs", case.inputs)}
