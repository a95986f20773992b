"""Items that are longer than the model's window leaves room for: they are not asked, and they are named."""

from collections.abc import Callable
from dataclasses import dataclass

from evals.tasks.documents import Document


@dataclass(frozen=True)
class Fitting:
    """``documents`` that are asked, and the items that are not, with their prompts' tokens (the largest of the repeats)."""

    documents: list[Document]
    left_out: dict[str, int]

    def line(self, window: int, budget: int) -> str:
        """What was left out, item by item; empty if nothing was."""
        if not self.left_out:
            return ""
        named = ", ".join(f"{item} ({tokens})" for item, tokens in self.left_out.items())
        return f"{len(self.left_out)} items are not run, longer than {window} tokens less {budget} for the response: {named}"


def fitting(documents: list[Document], count: Callable[[Document], int], window: int, budget: int) -> Fitting:
    """Leaves out every item of which a repeat's prompt and ``budget`` tokens of response exceed ``window``.

    ``count`` gives a prompt's tokens by the model's own tokenizer, chat template included.
    """
    longest: dict[str, int] = {}
    for document in documents:
        longest[document["item"]] = max(count(document), longest.get(document["item"], 0))
    left_out = {item: tokens for item, tokens in longest.items() if tokens + budget > window}
    return Fitting([document for document in documents if document["item"] not in left_out], left_out)
