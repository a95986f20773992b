"""Items whose scores differ: the largest differences first, of equal ones the losses."""

import numpy as np

from evals.comparing import flipped
from evals.comparing.reading import Items
from tests.evals.comparing.arms import Task
from tests.evals.comparing.test_lengths import arm


def test_the_order_is_by_size_then_losses_then_as_they_came() -> None:
    default, specialized = arm(np.ones((5, 2))), arm(np.ones((5, 2)))
    default.scores[:] = [[0, 0], [1, 0], [1, 1], [1, 0], [1, np.nan]]
    specialized.scores[:] = [[0, 1], [0, 0], [0, 0], [0, 0], [1, 1]]
    items = Items(np.zeros((5, 2), np.int32), {name: row for row, name in enumerate("abcde")}, [""] * 5)
    found = list(flipped.table(Task("some", np.ones((5, 2))).plan(), items, default, specialized))
    assert [(one.item, one.pairs, one.default, one.specialized) for one in found] == [
        ("c", 2, 2.0, 0.0),
        ("b", 2, 1.0, 0.0),
        ("d", 2, 1.0, 0.0),
        ("a", 2, 0.0, 1.0),
    ]
    assert flipped.count(default, specialized) == 4
