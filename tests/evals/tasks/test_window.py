"""What does not fit into the window is left out by name, whole items at a time."""

from hypothesis import given
from hypothesis import strategies as st

from evals.tasks.window import fitting


def document(item: int, repeat: int, tokens: int) -> dict:
    return {"item": f"{item}", "repeat": repeat, "tokens": tokens}


def tokens(document: dict) -> int:
    return document["tokens"]


def test_prompt_and_budget_may_fill_the_window() -> None:
    made = [document(0, 0, 900), document(1, 0, 901), document(2, 0, 5000)]
    found = fitting(made, tokens, 1000, 100)
    assert found.documents == made[:1]
    assert found.left_out == {"1": 901, "2": 5000}
    assert found.line(1000, 100) == "2 items are not run, longer than 1000 tokens less 100 for the response: 1 (901), 2 (5000)"


def test_nothing_left_out_is_nothing_said() -> None:
    assert fitting([document(0, 0, 10)], tokens, 1000, 100).line(1000, 100) == ""


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 30))), st.integers(0, 30), st.integers(0, 10))
def test_every_item_is_asked_whole_or_named(made: list[tuple[int, int, int]], window: int, budget: int) -> None:
    """No repeat of an item is asked if another does not fit: both arms have the same repeats of every item."""
    given_ = [document(*one) for one in made]
    found = fitting(given_, tokens, window, budget)
    assert {one["item"] for one in found.documents} | set(found.left_out) == {one["item"] for one in given_}
    assert not {one["item"] for one in found.documents} & set(found.left_out)
    assert found.documents == [one for one in given_ if one["item"] not in found.left_out]
    assert all(one["tokens"] + budget <= window for one in found.documents)
    for item, longest in found.left_out.items():
        assert longest == max(one["tokens"] for one in given_ if one["item"] == item)
        assert longest + budget > window
