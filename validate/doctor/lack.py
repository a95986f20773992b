"""One thing that a layer takes and this machine lacks."""

from collections.abc import Callable
from dataclasses import dataclass

from validate.errors import InputError


@dataclass(frozen=True)
class Lack:
    """``why`` it cannot run, and what to ``do`` about it: a command, or where to run it; empty if ``why`` says it.

    ``by_nox``: a nox session has it in the environment that it makes.
    """

    why: str
    do: str = ""
    by_nox: bool = False


def refusal(decide: Callable[[], object], do: str = "", *, by_nox: bool = False) -> list[Lack]:
    """What a layer itself says where it refuses to run: the lines of its InputError; nothing if it does not."""
    try:
        decide()
    except InputError as error:
        return [Lack(" ".join(str(error).split("\n")), do, by_nox)]
    return []
