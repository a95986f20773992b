"""An exercise for training alone: different words, to be repeated in their order.

Half of its tokens tell which one follows which: from it a small model learns, in a few hundred steps, to find a word and go on as
it went on there, which all other tasks need. From the other tasks alone it does not learn that: attention has grown one-hot,
whatever is asked, before they have shown it (see ``validate/standin/training.py``).
"""

from evals.practice.item import Draws, Item, Message, Problem, drawn
from evals.practice.needles import DOES, FIRST, PLACES, WEATHER

SHAPE = "echo"
WORDS = (*FIRST, *WEATHER, *DOES, *PLACES)


def item(seed: int, index: int) -> Item:
    """The exercise of (``seed``, ``index``)."""
    return drawn(SHAPE, seed, index, "train", _exercise)


def _exercise(draws: Draws) -> Problem:
    words = draws.some(WORDS, draws.between(6, len(WORDS)))
    lines = "".join(f"\n{word}" if word[0].isupper() else f" {word}" for word in words)  # each word one token
    return Problem(lines, (Message("user", f"Repeat:{lines}."),), "", f"So:{lines}.", f"So:{lines}.")
