r"""Small integer problems, in AIME25's shape.

Right is a final content whose last balanced ``\boxed{...}`` holds the integer ``target`` (0 to 999, no leading zeros); white
space, a ``\text{}`` around it and leading zeros do not matter. No box, no answer: an integer elsewhere does not count.
"""

from evals.practice.arithmetic import add, digit_sum, multiply, remainder, subtract
from evals.practice.item import Draws, Item, Message, Problem, Split, drawn

SHAPE = "integers"
TASK = "Think step by step. Put the final answer in \\boxed{}."
HARD = 0.15  # the share of problems with numbers of three digits


def item(seed: int, index: int, split: Split = "train") -> Item:
    """The problem of (``split``, ``seed``, ``index``)."""
    return drawn(SHAPE, seed, index, split, lambda draws: draws.pick(KINDS)(draws))


def _problem(key: str, question: str, reasoning: str, answer: int) -> Problem:
    content = f"The answer is \\boxed{{{answer}}}"
    return Problem(key, (Message("user", f"{question} {TASK}"),), reasoning, content, str(answer))


def _number(draws: Draws) -> int:
    return draws.between(100, 499) if draws.chance(HARD) else draws.between(11, 99)


def _chain(draws: Draws) -> Problem:
    a, b = _number(draws), _number(draws)
    c = draws.between(11, min(a + b, 499))
    total = add(a, b)
    rest = subtract(total.value, c)
    return _problem(f"{a}+{b}-{c}", f"Let a={a} and b=a+{b}. What is b-{c}?", f"{total.steps} {rest.steps}", rest.value)


def _unknown(draws: Draws) -> Problem:
    b, x = _number(draws), _number(draws)
    found = subtract(x + b, b)
    return _problem(f"x+{b}={x + b}", f"Find x if x+{b}={x + b}.", f"x is {x + b}-{b}. {found.steps}", x)


def _scaled(draws: Draws) -> Problem:
    k, n, b = draws.between(3, 9), draws.between(12, 99), draws.between(11, 99)
    product = multiply(k, n)
    total = add(product.value, b)
    return _problem(f"{k}x{n}+{b}", f"Let a={n}. What is {k}a+{b}?", f"{product.steps} {total.steps}", total.value)


def _count(draws: Draws) -> Problem:
    low, size = _number(draws), _number(draws)
    high = low + size
    gap = subtract(high, low)
    more = add(gap.value, 1)
    return _problem(
        f"{low}..{high}", f"How many integers are there from {low} to {high}?", f"{gap.steps} {more.steps}", more.value
    )


def _digits(draws: Draws) -> Problem:
    a, b = _number(draws), _number(draws)
    total = add(a, b)
    digits = digit_sum(total.value)
    question = f"Find the sum of the digits of {a}+{b}."
    return _problem(f"digits {a}+{b}", question, f"{total.steps} {digits.steps}", digits.value)


def _term(draws: Draws) -> Problem:
    start, step, n = draws.between(2, 99), draws.between(11, 99), draws.between(3, 9)
    grown = multiply(n - 1, step)
    term = add(grown.value, start)
    question = f"A sequence starts at {start} and grows by {step}. What is term {n}?"
    return _problem(f"{start}+{n - 1}x{step}", question, f"{n}-1={n - 1}. {grown.steps} {term.steps}", term.value)


def _remainder(draws: Draws) -> Problem:
    a, b, m = _number(draws), _number(draws), draws.between(3, 9)
    total = add(a, b)
    rest = remainder(total.value, m)
    question = f"Find the remainder of {a}+{b} divided by {m}."
    return _problem(f"{a}+{b} mod {m}", question, f"{total.steps} {rest.steps}", rest.value)


KINDS = (_chain, _unknown, _scaled, _count, _digits, _term, _remainder)
