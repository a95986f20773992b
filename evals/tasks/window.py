"""Items that are longer than the model's window leaves room for: they are not asked, and they are named."""

from collections.abc import Callable, Iterable, Sequence

from evals.tasks.documents import Document


def left_out(documents: Iterable[Document], count: Callable[[Document], int], window: int, budget: int) -> dict[str, int]:
    """Every item of which a repeat's prompt and ``budget`` tokens of response exceed ``window``.

    With its prompt's tokens, the largest of the repeats. ``count`` gives a prompt's tokens by the model's own tokenizer, chat
    template included.
    """
    longest: dict[str, int] = {}
    for document in documents:
        longest[document["item"]] = max(count(document), longest.get(document["item"], 0))
    return {item: tokens for item, tokens in longest.items() if tokens + budget > window}


def line(items: Sequence[tuple[str, int]], window: int, budget: int) -> str:
    """What was left out, item by item; empty if nothing was."""
    if not items:
        return ""
    named = ", ".join(f"{item} ({tokens})" for item, tokens in items)
    return f"{len(items)} items are not run, longer than {window} tokens less {budget} for the response: {named}"
