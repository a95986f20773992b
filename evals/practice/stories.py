"""Short word problems of two to four steps, in GSM8K's shape.

Right (strict) is a final content whose last ``####`` is followed by the integer ``target``; thousands commas, a currency sign,
a unit after it and a full stop do not matter. Flexible: where there is no ``####``, the last box, else a declared answer.
"""

from evals.practice.arithmetic import add, multiply, subtract
from evals.practice.item import Draws, Item, Message, Problem, Split, drawn

SHAPE = "stories"
TASK = "End with #### and the number."
NAMES = ("Mira", "Tom", "Lena", "Raj", "Nils", "Ada", "Omar", "Ines")
THINGS = ("beads", "shells", "cards", "stones", "coins", "plums", "pens", "nuts")
HARD = 0.1  # the share of steps with a number of three digits
LARGEST = 999  # of a comparison's result


def item(seed: int, index: int, split: Split = "train") -> Item:
    """The story of (``split``, ``seed``, ``index``)."""
    return drawn(SHAPE, seed, index, split, _story)


def _story(draws: Draws) -> Problem:
    name, other = draws.some(NAMES, 2)
    thing, another = draws.some(THINGS, 2)
    have = draws.between(12, 99)
    key, told, steps = [str(have)], [f"{name} has {have} {thing}."], []
    if draws.chance(0.2):  # of no matter
        told.append(f"{other} has {draws.between(12, 99)} {another}.")
    left = draws.pick((2, 2, 2, 2, 3, 3, 4))  # steps to come, one of them perhaps the comparison at the end
    compares = draws.chance(0.25)
    while left > compares:
        n = draws.between(100, 299) if draws.chance(HARD) else draws.between(11, 99)
        choice = draws.below(3)
        if choice == 0 and n < have:
            worked = subtract(have, n)
            told.append(draws.pick((f"{name} gives {n} to {other}.", f"{name} loses {n} of them.")))
            key.append(f"-{n}")
        elif choice == 1 and n < 50 and left > compares + 1:
            k = draws.between(3, 9)
            boxes = multiply(k, n)
            steps.append(boxes.steps)
            worked = add(have, boxes.value)
            told.append(f"{name} buys {k} boxes of {n} {thing}.")
            key.append(f"+{k}x{n}")
            left -= 1
        else:
            worked = add(have, n)
            told.append(draws.pick((f"{name} finds {n} more.", f"{other} gives {name} {n} {thing}.")))
            key.append(f"+{n}")
        have = worked.value
        steps.append(worked.steps)
        left -= 1
    k = draws.between(2, 5)
    if compares and k * have <= LARGEST:
        worked = multiply(k, have)
        steps.append(worked.steps)
        told.append(f"{other} has {k} times as many {thing} as {name} has now. How many {thing} has {other}?")
        key.append(f"*{k}")
        name, have = other, worked.value
    else:
        told.append(f"How many {thing} has {name} now?")
    question = " ".join([*told, TASK])
    content = f"{name} has {have} {thing}.\n#### {have}"
    return Problem("".join(key), (Message("user", question),), " ".join(steps), content, str(have))
