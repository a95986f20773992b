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
    """Questions of the practice tasks that await their answers, after as many answered ones as the length asks for.

    What is too long is cut off at the front.
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
            found = encode(chat.prompt(item.messages, True) + (chat.answer(item, True) if found else "")) + found
        return found[-length:]

    return draw
