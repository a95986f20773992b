"""Which ends are loops."""

import random

import pytest

from validate.long_output.signals.loops import COVERED, PERIOD, loops, words


@pytest.mark.parametrize("period", [1, 2, 7, 16, 17, 100, PERIOD])
def test_three_copies_that_cover_enough_are_a_loop(period: int) -> None:
    draws = random.Random(period)
    before, pattern = [draws.random() for _ in range(500)], [draws.random() for _ in range(period)]
    copies = max(3, -(-COVERED // period))
    assert loops(before + pattern * copies)
    assert not loops((before + pattern * copies)[:-1] if copies == 3 else before + pattern * (copies - 1))
    assert not loops(before + pattern * copies + [-1.0])  # it has left the loop


def test_a_loop_may_end_within_a_copy() -> None:
    assert loops([*range(100), *[1, 2, 3, 4, 5] * 10, 1, 2])


def test_too_long_a_pattern_and_a_short_text_are_none() -> None:
    assert not loops([*range(PERIOD + 1)] * 4)
    assert not loops([1] * (COVERED - 1))
    assert loops([1] * COVERED)
    assert not loops([])


def test_of_a_text_its_words_count() -> None:
    assert loops(words("So it begins. " + "I will check it again. " * 12))
    assert not loops(words("I will check it again. " * 2 + "Done."))
    assert not loops(words(" ".join(map(str, range(5000)))))
