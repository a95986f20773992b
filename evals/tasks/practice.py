"""Documents of the practice tasks, drawn from a seed: questions that the stand-in has not been trained on."""

from types import ModuleType

from evals.practice import choices, integers, needles, stories
from evals.tasks.documents import Document, Documents, asked

SHAPES: dict[str, ModuleType] = {
    "practice_integers": integers,
    "practice_choices": choices,
    "practice_stories": stories,
    "practice_needles": needles,
}


def documents(benchmark: str, items: int, repeats: int, seed: int, again: bool = False) -> Documents:
    """As ``evals.tasks.documents``, of the first ``items`` test items of a seed."""
    made = {f"{index}": _document(benchmark, seed, index) for index in range(items)}
    what = f"{benchmark}: test items 0 to {items - 1} of seed {seed}"
    return Documents(asked(benchmark, made, repeats, again), what, secret=False)


def _document(benchmark: str, seed: int, index: int) -> Document:
    shape = SHAPES[benchmark]
    item = shape.item(seed, index, "test")
    messages = [{"role": turn.role, "content": turn.content} for turn in item.messages]
    prefix = item.target[: needles.PREFIX] if shape is needles else ""
    return {"messages": messages, "gold": item.target, "prefix": prefix}
