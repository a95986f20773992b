"""Arithmetic written digit by digit, the last digit first, in steps that a very small model can learn."""

from typing import NamedTuple


class Worked(NamedTuple):
    """A result and the steps to it: ``47+38: 7+8=15, 4+3+1=8, so 85.``."""

    value: int
    steps: str


def _digits(n: int) -> list[int]:
    return [int(digit) for digit in reversed(str(n))]


def _worked(title: str, steps: list[str], value: int) -> Worked:
    return Worked(value, f"{title}: {', '.join(steps)}, so {value}.")


def add(a: int, b: int) -> Worked:
    """``a`` + ``b``, neither negative. A step adds the digits that there are and the carry."""
    first, second = _digits(a), _digits(b)
    steps, carry = [], 0
    for place in range(max(len(first), len(second))):
        terms = first[place : place + 1] + second[place : place + 1] + [carry] * (carry > 0)
        steps.append(f"{'+'.join(map(str, terms))}={sum(terms)}")
        carry = sum(terms) // 10
    return _worked(f"{a}+{b}", steps, a + b)


def subtract(a: int, b: int) -> Worked:
    """``a`` - ``b``, ``a`` >= ``b`` >= 0. A step takes 10 more where the digit is too small, the next one then 1 less."""
    first, second = _digits(a), _digits(b)
    steps, borrowed = [], 0
    for place, digit in enumerate(first):
        taken = [borrowed] * (borrowed > 0) + second[place : place + 1]
        top = digit + 10 * (digit < sum(taken))
        borrowed = int(top > 9)
        steps.append(f"{'-'.join(map(str, [top, *taken]))}={top - sum(taken)}")
    return _worked(f"{a}-{b}", steps, a - b)


def multiply(k: int, n: int) -> Worked:
    """``k`` * ``n``, ``k`` of one digit. A step is a product of two digits; another adds the carry, if any."""
    steps, carry = [], 0
    for digit in _digits(n):
        product = k * digit
        steps.append(f"{k}x{digit}={product}")
        if carry:
            steps.append(f"{product}+{carry}={product + carry}")
        carry = (product + carry) // 10
    return _worked(f"{k}x{n}", steps, k * n)


def remainder(n: int, m: int) -> Worked:
    """``n`` modulo ``m``, ``m`` of one digit, from the first digit on: ``85/7: 8=7x1+1, 15=7x2+1, so 1.``."""
    steps, rest = [], 0
    for digit in str(n):
        part = 10 * rest + int(digit)
        rest = part % m
        steps.append(f"{part}={m}x{part // m}+{rest}")
    return _worked(f"{n}/{m}", steps, rest)


def digit_sum(n: int) -> Worked:
    """The sum of the digits of ``n``, which has two digits or more."""
    first, *others = map(int, str(n))
    steps, total = [], first
    for digit in others:
        steps.append(f"{total}+{digit}={total + digit}")
        total += digit
    return _worked(f"digits of {n}", steps, total)
