"""The stand-in's drafter: always as many tokens, of a request's own."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from validate.standin.drafter import drafted


@pytest.mark.parametrize(
    ("tokens", "drafts"),
    [
        ([1, 2, 3, 4, 9, 1, 2], [3, 4, 9]),
        ([1, 2, 7, 7, 5, 2, 8, 8, 8, 1, 2], [7, 7, 5]),  # the longer stretch before the later one
        ([1, 2, 3, 1, 2, 4, 1, 2], [4, 1, 2]),  # the later of two
        ([6, 5, 6], [5, 6, 6]),  # too short: filled up
        ([1, 2, 3], [3, 3, 3]),  # nothing found
        ([4], [4, 4, 4]),
    ],
)
def test_what_is_drafted(tokens: list[int], drafts: list[int]) -> None:
    assert drafted(np.array(tokens), 3) == drafts


@hypothesis.given(tokens=strategies.lists(strategies.integers(0, 4), min_size=1, max_size=30), drafts=strategies.integers(1, 7))
def test_always_as_many_of_its_own_tokens(tokens: list[int], drafts: int) -> None:
    found = drafted(np.array(tokens), drafts)
    assert len(found) == drafts
    assert set(found) <= set(tokens)
