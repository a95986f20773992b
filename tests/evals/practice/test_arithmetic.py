import re

from hypothesis import given
from hypothesis import strategies as st

from evals.practice.arithmetic import Worked, add, digit_sum, multiply, remainder, subtract

numbers = st.integers(0, 9999)
digit = st.integers(1, 9)


def check(worked: Worked, value: int, title: str) -> list[int]:
    """The value and every step are right; returns the steps' results."""
    assert worked.value == value
    head, steps = worked.steps.split(": ")
    assert head == title
    *equations, last = steps.split(", ")
    assert last == f"so {value}."
    for equation in equations:
        left, right = equation.replace("x", "*").split("=")
        assert eval(left) == eval(right)
    return [int(re.split(r"=", equation)[1]) for equation in equations if equation.split("=")[1].isdigit()]


def written(results: list[int]) -> int:
    """The number whose last digits the results are, the last result first and whole."""
    return int("".join([str(results[-1]), *(str(result % 10) for result in reversed(results[:-1]))]))


@given(numbers, numbers)
def test_add(a: int, b: int) -> None:
    assert written(check(add(a, b), a + b, f"{a}+{b}")) == a + b


@given(numbers, numbers)
def test_subtract(a: int, b: int) -> None:
    a, b = max(a, b), min(a, b)
    results = check(subtract(a, b), a - b, f"{a}-{b}")
    assert all(0 <= result <= 9 for result in results)
    assert written(results) == a - b


@given(digit, numbers)
def test_multiply(k: int, n: int) -> None:
    check(multiply(k, n), k * n, f"{k}x{n}")


@given(numbers, digit)
def test_remainder(n: int, m: int) -> None:
    check(remainder(n, m), n % m, f"{n}/{m}")


@given(st.integers(10, 9999))
def test_digit_sum(n: int) -> None:
    check(digit_sum(n), sum(map(int, str(n))), f"digits of {n}")
