"""What a line of measurements says: its verdict is that of its figures, whatever it was written as."""

import pytest

from tests.support import line
from validate.verdict import Verdict


@pytest.mark.parametrize(("figure", "wanted"), [(0.5, Verdict.PASS), (float("nan"), Verdict.FAIL), (1.5, Verdict.FAIL)])
def test_a_figure_that_is_none_or_beyond_its_bound_is_no_pass(figure: float, wanted: Verdict) -> None:
    made = line(figure=figure)
    believed = tuple(m.model_copy(update={"passed": True}) for m in made.measurements)
    assert made.model_copy(update={"measurements": believed}).verdict is wanted
