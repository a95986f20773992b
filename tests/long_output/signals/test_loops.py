"""Where outputs repeat, and which ends are loops."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validate.long_output.signals.loops import COPIES, COVERED, LONG, PERIOD, Loop, find, loops, words


@pytest.mark.parametrize(("period", "copies"), [(1, 48), (2, 24), (5, 10), (17, 3), (128, 3), (129, 4), (400, 4), (1024, 4)])
def test_a_pattern_long_enough_and_often_enough_is_a_loop(period: int, copies: int) -> None:
    draws = random.Random(period)
    before, pattern = [draws.random() for _ in range(200)], [draws.random() for _ in range(period)]
    assert loops(before + pattern * copies)
    assert not loops((before + pattern * copies)[:-1] if copies in (3, 4) else before + pattern * (copies - 1))
    assert not loops(before + pattern * copies + [-1.0])  # it has left the loop
    assert find(before + pattern * copies + [-1.0]) == [Loop(200, 200 + period * copies, period)]


def test_a_loop_cut_off_in_its_midst_is_one() -> None:
    assert loops([*range(100), *[1, 2, 3, 4, 5] * 10, 1, 2])


def test_what_is_no_loop() -> None:
    assert not loops([*range(PERIOD + 1)] * 3)
    assert not loops([*range(LONG + 1)] * 5)
    assert not loops([1] * (COVERED - 1))
    assert loops([1] * COVERED)
    assert not loops([])
    assert find([]) == find([7]) == []


def test_benign_repeats_of_sound_text_are_none() -> None:
    table = [token for row in range(40) for token in (1, 2, 1, 2, 1, 2, 100 + row, 3, 3, 3, 3)]  # rules and dashes
    assert find(table) == []


def test_two_loops_are_told_apart_by_their_starts_and_shortest_periods() -> None:
    draws = random.Random(3)
    noise = [draws.randrange(10**6) for _ in range(300)]
    tokens = noise[:100] + [1, 2] * 30 + noise[100:200] + [4, 5, 6] * 20 + noise[200:]
    assert find(tokens) == [Loop(100, 160, 2), Loop(260, 320, 3)]


def test_words_of_a_text_repeat_where_its_tokens_do() -> None:
    assert loops(words("So it begins. " + "I will check it again. " * 12))
    assert not loops(words("I will check it again. " * 2 + "Done."))
    assert not loops(words(" ".join(map(str, range(5000)))))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=200))
def test_it_finds_what_a_search_of_every_stretch_finds(tokens: list[int]) -> None:
    whole = set()
    for period in range(1, PERIOD + 1):
        start = 0
        while start + period < len(tokens):
            end = start + period
            while end < len(tokens) and tokens[end] == tokens[end - period]:
                end += 1
            if end - start >= max(COPIES * period, COVERED):
                whole.add((start, end))
            start = max(start + 1, end - period + 1)
    assert {(loop.start, loop.end) for loop in find(tokens)} == whole


def test_time_grows_with_the_tokens_and_no_faster() -> None:
    draws = random.Random(0)
    taken = []
    for size in (20_000, 80_000):
        tokens = [draws.randrange(50) for _ in range(size)]
        start = time.process_time()
        find(tokens)
        taken.append(time.process_time() - start)
    assert taken[1] < 12 * taken[0]  # four times the tokens; quadratic would be 16 times as long
