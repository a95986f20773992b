"""An exercise for training alone: the texts of a needle conversation, asked for by their first words.

To find a word in the conversation and go on as it went on there takes a small model longest to learn. A needle conversation
has four such words, an exercise up to 32. A text asked for here may be the needle of a test, as may those that stand beside
other needles: of 160,000 texts a model knows none, it finds them.
"""

from evals.practice.item import Draws, Item, Message, Problem, drawn
from evals.practice.needles import KINDS, TOPICS, TURNS_LONG, history

SHAPE = "recall"
ASKED = 8  # texts at most


def item(seed: int, index: int) -> Item:
    """The exercise of (``seed``, ``index``)."""
    return drawn(SHAPE, seed, index, "train", _exercise)


def _exercise(draws: Draws) -> Problem:
    turns = draws.between(2, draws.pick((4, 8, TURNS_LONG)))
    messages, texts = history(draws, [(draws.pick(KINDS), draws.pick(TOPICS)) for _ in range(turns)])
    asked = draws.shuffled(texts)[:ASKED]
    first = ", ".join(f'"{text.split()[0]}"' for text in asked)
    content = "\n".join(asked)
    return Problem(content, (*messages, Message("user", f"Repeat what starts with {first}.")), "", content, content)
