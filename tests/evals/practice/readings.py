"""What an item asks and what is right, read from the words of its turns alone."""

import re
from collections.abc import Hashable

from evals.practice.choices import SUBSTANCES
from evals.practice.item import Item


def question(item: Item) -> str:
    return item.messages[-1].content


def integers(item: Item) -> tuple[Hashable, str]:
    text = question(item)
    kinds = {
        r"Let a=(\d+) and b=a\+(\d+). What is b-(\d+)\?": lambda a, b, c: a + b - c,
        r"Find x if x\+(\d+)=(\d+)\.": lambda b, c: c - b,
        r"Let a=(\d+). What is (\d)a\+(\d+)\?": lambda n, k, b: k * n + b,
        r"How many integers are there from (\d+) to (\d+)\?": lambda low, high: len(range(low, high + 1)),
        r"Find the sum of the digits of (\d+)\+(\d+)\.": lambda a, b: sum(map(int, str(a + b))),
        r"A sequence starts at (\d+) and grows by (\d+). What is term (\d)\?": lambda a, d, n: list(range(a, 9999, d))[n - 1],
        r"Find the remainder of (\d+)\+(\d+) divided by (\d)\.": lambda a, b, m: (a + b) % m,
    }
    for number, (pattern, answer) in enumerate(kinds.items()):
        if found := re.match(pattern, text):
            values = tuple(map(int, found.groups()))
            return (number, values), str(answer(*values))
    raise AssertionError(text)


def stories(item: Item) -> tuple[Hashable, str]:
    """Counts who has how many of what, sentence by sentence."""
    sentences = re.findall(r"[^.?]+[.?]", question(item))
    name, have, thing = re.fullmatch(r"(\w+) has (\d+) (\w+)\.", sentences[0]).groups()
    owned = int(have)
    told: list[tuple[str, int]] = [("has", owned)]
    for sentence in sentences[1:]:
        numbers = list(map(int, re.findall(r"\d+", sentence)))
        if f"{name} gives" in sentence or "loses" in sentence:
            owned -= numbers[0]
            told.append(("less", *numbers))
        elif "boxes" in sentence:
            owned += numbers[0] * numbers[1]
            told.append(("boxes", *numbers))
        elif "times as many" in sentence:
            owned *= numbers[0]
            told.append(("times", *numbers))
        elif "finds" in sentence or f"gives {name}" in sentence:
            owned += numbers[0]
            told.append(("more", *numbers))
        elif " has " in sentence and numbers:
            assert thing not in sentence
        elif sentence.startswith(" How many"):
            break
    return tuple(told), str(owned)


def choices(item: Item) -> tuple[Hashable, str]:
    first, *lines, _ = question(item).split("\n")
    options = {line[0]: line[3:] for line in lines}
    assert "".join(options) == "ABCD"
    facts = {substance.name: substance for substance in SUBSTANCES}
    if first.startswith("What do"):
        one, other = re.match(r"What do (\w+) and (\w+) weigh together", first).groups()
        right = str(facts[one].weight + facts[other].weight)
    else:
        four = [facts[name] for name in options.values()]
        last = first.removeprefix("Which substance ").removesuffix("?")
        right = {
            "weighs the most": lambda: max(four, key=lambda substance: substance.weight),
            "weighs the least": lambda: min(four, key=lambda substance: substance.weight),
            "melts first": lambda: min(four, key=lambda substance: substance.melts),
            "melts last": lambda: max(four, key=lambda substance: substance.melts),
        }.get(last, lambda: next(substance for substance in four if last == f"is {substance.colour}"))().name
        colours = [substance.colour for substance in four]
        assert last.removeprefix("is ") not in colours or colours.count(last.removeprefix("is ")) == 1
    letters = [letter for letter, option in options.items() if option == right]
    assert len(letters) == 1
    return (first, frozenset(options.values())), letters[0]


def needles(item: Item) -> tuple[Hashable, str]:
    nth, request, prefix = re.match(r'Repeat the (\d)\w\w (.+) with "(.+)" before it and nothing else\.', question(item)).groups()
    turns = item.messages[:-1]
    texts = [text for (_, asked), (_, text) in zip(turns[::2], turns[1::2], strict=True) if asked == f"Write a {request}."]
    assert len(texts) in (2, 4, 8)
    assert len(prefix) == 10
    return texts[int(nth) - 1], prefix + texts[int(nth) - 1]


READINGS = {"integers": integers, "choices": choices, "stories": stories, "needles": needles}
