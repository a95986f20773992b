"""What does not fit into the window is left out by name, whole items at a time."""

from hypothesis import given
from hypothesis import strategies as st

from evals.tasks.window import left_out, line


def document(item: int, repeat: int, tokens: int) -> dict:
    return {"item": f"{item}", "repeat": repeat, "tokens": tokens}


def tokens(document: dict) -> int:
    return document["tokens"]


def asked(made: list[dict], found: dict[str, int]) -> list[dict]:
    return [one for one in made if one["item"] not in found]


def test_prompt_and_budget_may_fill_the_window() -> None:
    made = [document(0, 0, 900), document(1, 0, 901), document(2, 0, 5000)]
    found = left_out(made, tokens, 1000, 100)
    assert asked(made, found) == made[:1]
    assert found == {"1": 901, "2": 5000}
    assert (
        line(tuple(found.items()), 1000, 100)
        == "2 items are not run, longer than 1000 tokens less 100 for the response: 1 (901), 2 (5000)"
    )


def test_nothing_left_out_is_nothing_said() -> None:
    assert line(tuple(left_out([document(0, 0, 10)], tokens, 1000, 100).items()), 1000, 100) == ""


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 30))), st.integers(0, 30), st.integers(0, 10))
def test_every_item_is_asked_whole_or_named(made: list[tuple[int, int, int]], window: int, budget: int) -> None:
    """No repeat of an item is asked if another does not fit: both arms have the same repeats of every item."""
    given_ = [document(*one) for one in made]
    found = left_out(given_, tokens, window, budget)
    kept = asked(given_, found)
    assert {one["item"] for one in kept} | set(found) == {one["item"] for one in given_}
    assert all(one["tokens"] + budget <= window for one in kept)
    for item, longest in found.items():
        assert longest == max(one["tokens"] for one in given_ if one["item"] == item)
        assert longest + budget > window
