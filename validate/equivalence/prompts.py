"""What requests ask: token ids by name and length, the same on every machine."""

import random
from collections.abc import Callable
from functools import cache

# A name and a length give that many token ids.
Prompts = Callable[[str, int], tuple[int, ...]]


def seeded(seed: int, ids: tuple[int, int]) -> Prompts:
    """Ids drawn evenly from ``ids``, the end excluded."""

    def draw(name: str, length: int) -> tuple[int, ...]:
        source = random.Random(f"{seed}/{name}")
        return tuple(source.randrange(*ids) for _ in range(length))

    return draw


def practice(seed: int) -> Prompts:
    """Answered questions of the practice tasks, as many as the length asks for, the last one cut off within its answer.

    What is too long is cut off at the front. The place of the cut is drawn: all questions end alike, so that short prompts
    would be one and the same.
    """
    from evals.practice import chat, choices, integers, needles, stories, tokenizer

    shapes = (integers, choices, stories, needles)

    @cache
    def encode(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.load().encode(text).ids)

    def draw(name: str, length: int) -> tuple[int, ...]:
        source = random.Random(f"{seed}/{name}")
        found: tuple[int, ...] = ()
        while len(found) < length:
            item = source.choice(shapes).item(seed, source.randrange(2**31), "test")
            asked, answer = encode(chat.prompt(item.messages, True)), encode(chat.answer(item, True))
            found = asked + (answer + found if found else answer[: source.randrange(len(answer))])
        return found[-length:]

    return draw
