"""Areas over lengths: none is named after a length that the set does not have."""

import numpy as np

from evals.comparing import strata
from evals.comparing.reading import Items
from evals.tasks.lengths import DOUBLINGS_OPENAI, SHORTEST, stratum
from tests.evals.comparing.arms import Task
from tests.evals.comparing.test_lengths import arm


def areas(*lacking: int) -> list[str]:
    bounds = [SHORTEST * 2**n for n in range(1, DOUBLINGS_OPENAI + 1) if SHORTEST * 2**n not in lacking]
    names = [stratum(2, bound, DOUBLINGS_OPENAI) for bound in bounds]
    items = Items(np.zeros((len(names), 1), np.int32), {f"{row}": row for row in range(len(names))}, names)
    ones = np.ones((len(names), 1))
    return [one.name for one in strata.compare(Task("some", ones).plan(), items, arm(ones), arm(ones)) if one.kind == "area"]


def test_an_area_needs_every_length_up_to_its_longest() -> None:
    assert areas() == ["2 needles, to 131072 tokens", "2 needles, to 1048576 tokens"]
    assert areas(2**19) == ["2 needles, to 131072 tokens"]
    assert areas(2**17) == []
    assert areas(2**18, 2**19, 2**20) == ["2 needles, to 131072 tokens"]
