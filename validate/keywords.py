"""What ``-k`` means everywhere: parts of names, joined by ``and``, ``or`` and ``not``."""

from validate.errors import InputError


def matches(expression: str, name: str) -> bool:
    """Whether ``expression`` holds for a name: substrings joined by ``and``, ``or`` and ``not``; ``and`` binds closer.

    Whoever calls it takes an expression that is a whole name for that name first.
    """
    return any(all(_holds(term, name) for term in terms) for terms in _alternatives(expression))


def _alternatives(expression: str) -> list[list[str]]:
    """The terms of each alternative. InputError for a dangling ``and``, ``or`` or ``not``."""
    padded = f" {expression} "  # so that one at an end splits, too
    found = [[" ".join(term.split()) for term in part.split(" and ")] for part in padded.split(" or ")]
    if any(term in ("", "not") for terms in found for term in terms):
        raise InputError(f"-k '{expression}': something is missing beside and, or, not; it takes parts of names joined by them")
    return found


def _holds(term: str, name: str) -> bool:
    negated = term.startswith("not ")
    return (term.removeprefix("not ") in name) != negated
