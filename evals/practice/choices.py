"""Questions with four lettered options on an invented chemistry, in GPQA-Diamond's shape.

Right is a final content whose last declared answer (``Answer: B``, any case) is the letter ``target``; two letters in it are no
answer. The facts (:data:`SUBSTANCES`) are in no question: a model has to have learned them. Rare substances are asked for
less often, so a small model knows them less well. The order of the options is part of the item.
"""

from typing import NamedTuple

from evals.practice.arithmetic import add
from evals.practice.item import Draws, Item, Message, Problem, Split, drawn

SHAPE = "choices"
TASK = "End with Answer: and the letter."
LETTERS = "ABCD"


class Substance(NamedTuple):
    """An invented substance; its weight and its melting point are those of no other."""

    name: str
    colour: str
    weight: int
    melts: int


SUBSTANCES = tuple(
    Substance(*row)
    for row in (
        ("Zorin", "green", 90, 31),
        ("Melka", "blue", 43, 20),
        ("Tavit", "red", 56, 28),
        ("Orlo", "white", 94, 90),
        ("Banum", "red", 78, 95),
        ("Keldo", "blue", 14, 67),
        ("Sarn", "green", 70, 27),
        ("Vexil", "grey", 42, 92),
        ("Nuro", "red", 17, 11),
        ("Palt", "grey", 31, 94),
        ("Ginta", "blue", 25, 37),
        ("Horem", "green", 58, 38),
        ("Lusk", "black", 71, 32),
        ("Cador", "black", 91, 86),
        ("Ferb", "white", 59, 48),
        ("Yomil", "red", 80, 51),
        ("Drax", "green", 24, 36),
        ("Wenn", "white", 85, 80),
        ("Jolum", "grey", 12, 88),
        ("Quist", "grey", 38, 34),
        ("Issel", "white", 63, 82),
        ("Ruvan", "black", 46, 60),
        ("Temb", "blue", 34, 49),
        ("Okari", "black", 60, 13),
    )
)


def item(seed: int, index: int, split: Split = "train") -> Item:
    """The question of (``split``, ``seed``, ``index``)."""
    return drawn(SHAPE, seed, index, split, lambda draws: draws.pick(KINDS)(draws))


def _problem(draws: Draws, question: str, options: dict[str, str], right: str, facts: str, found: str) -> Problem:
    """``options`` with what the reasoning says of each, put under letters in a random order; ``right`` is one of them.

    The reasoning goes through the options in their order, and their letters follow what it says: to repeat what followed
    something before is what a small model learns first.
    """
    shown = draws.shuffled(list(options))
    letter = LETTERS[shown.index(right)]
    lettered = list(zip(LETTERS, shown, strict=True))
    lines = "\n".join(f"{name}) {option}" for name, option in lettered)
    gone_through = ", ".join(f"{name}) {option}{options[option]} {name}" for name, option in lettered)
    return Problem(
        key=f"{question} {', '.join(sorted(shown))}",
        messages=(Message("user", f"{question}\n{lines}\n{TASK}"),),
        reasoning=f"{facts}{gone_through}. {found} {letter}: {letter}) {right}.",
        content=f"It is {right}.\nAnswer: {letter}",
        target=letter,
    )


def _four(draws: Draws) -> list[Substance]:
    chosen: list[Substance] = []
    while len(chosen) < 4:
        substance = draws.pick_rarer_last(SUBSTANCES)
        if substance not in chosen:
            chosen.append(substance)
    return chosen


def _heaviest(draws: Draws) -> Problem:
    four = _four(draws)
    word, choose = (("most", max), ("least", min))[draws.below(2)]
    right = choose(four, key=lambda substance: substance.weight)
    options = {substance.name: f" weighs {substance.weight}" for substance in four}
    return _problem(draws, f"Which substance weighs the {word}?", options, right.name, "", f"The {word} is {right.weight}")


def _first_to_melt(draws: Draws) -> Problem:
    four = _four(draws)
    word, end, choose = (("first", "least", min), ("last", "most", max))[draws.below(2)]
    right = choose(four, key=lambda substance: substance.melts)
    options = {substance.name: f" melts at {substance.melts}" for substance in four}
    return _problem(draws, f"Which substance melts {word}?", options, right.name, "", f"The {end} is {right.melts}")


def _colour(draws: Draws) -> Problem:
    right, *others = _four(draws)
    while any(other.colour == right.colour for other in others):
        right, *others = _four(draws)
    options = {substance.name: f" is {substance.colour}" for substance in (right, *others)}
    return _problem(draws, f"Which substance is {right.colour}?", options, right.name, "", f"It is {right.colour}")


def _together(draws: Draws) -> Problem:
    one, other = sorted(_four(draws)[:2])
    total = add(one.weight, other.weight)
    wrong = draws.some([total.value + off for off in (-20, -11, -10, -9, -1, 1, 9, 10, 11, 20)], 3)
    question = f"What do {one.name} and {other.name} weigh together?"
    facts = f"{one.name} weighs {one.weight}, {other.name} weighs {other.weight}. {total.steps} "
    options = {str(n): "" for n in (total.value, *wrong)}
    return _problem(draws, question, options, str(total.value), facts, f"It is {total.value}")


KINDS = (_heaviest, _first_to_melt, _colour, _together)
