"""Conversations in which the same kind of text is asked for several times, in the shape of OpenAI's MRCR.

The last turn asks for the nth text of one kind and topic, with a random string before it. ``target`` is that string
(:data:`PREFIX` characters) and then the text. A final content that does not start with the string, to the letter and without
white space before it, scores 0; else the score is ``difflib.SequenceMatcher(None, rest of the content, rest of the
target).ratio()``, in this order and with difflib's defaults. Exact is a score of 1.
"""

from evals.practice.item import Draws, Item, Message, Problem, Split, drawn

SHAPE = "needles"
PREFIX = 10
ALPHABET = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
KINDS = ("poem", "note", "riddle", "tale")
TOPICS = ("owls", "foxes", "ships", "kings", "bells", "trains", "ghosts", "bees")
# Of a text. All words of a conversation's texts differ, so that a word tells which one follows it: a small model learns to
# repeat such a text, and does not learn to keep two apart that share a part.
FIRST = (
    *("Pale", "Calm", "Grey", "Soft", "Wild", "Old", "Tiny", "Proud", "Slow", "Dark"),
    *("Loud", "Brave", "Lost", "Warm", "Neat", "Plain", "Red", "Tall", "Vain", "Young"),
)
WEATHER = (
    *("mist", "rain", "night", "wind", "snow", "sun", "storm", "frost", "fog", "heat"),
    *("dust", "dawn", "hail", "ice", "smoke", "spring", "dusk", "cloud", "moon", "autumn"),
)
DOES = (
    *("hides", "meets", "turns", "warms", "finds", "wakes", "holds", "leaves", "fills", "paints"),
    *("greets", "cools", "shakes", "covers", "lights", "passes", "sees", "feeds", "rocks", "calls"),
)
PLACES = (
    *("hill", "lake", "mill", "road", "gate", "sea", "barn", "bridge", "tower", "field"),
    *("well", "shore", "farm", "ford", "cave", "port", "wood", "pond", "wall", "tent"),
)
ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th")
LONG = 0.12  # the share of conversations with many more turns
TURNS, TURNS_LONG = 8, 18  # texts in a conversation, at most


def item(seed: int, index: int, split: Split = "train") -> Item:
    """The conversation of (``split``, ``seed``, ``index``)."""
    return drawn(SHAPE, seed, index, split, _conversation)


def _conversation(draws: Draws) -> Problem:
    """The key is the text asked for: what is asked for in tests is never asked for in training."""
    wanted = draws.pick(KINDS), draws.pick(TOPICS)
    needles = draws.pick((2, 4, 8))
    others = draws.between(8, TURNS_LONG - needles) if draws.chance(LONG) else draws.between(0, TURNS - needles)
    asked = draws.shuffled([wanted] * needles + [_another(draws, wanted) for _ in range(others)])
    messages, texts = history(draws, asked)
    places = [place for place, request in enumerate(asked) if request == wanted]
    nth = draws.below(needles)
    kind, topic = wanted
    prefix = "".join(draws.pick(ALPHABET) for _ in range(PREFIX))
    question = f'Repeat the {ORDINALS[nth]} {kind} about {topic} with "{prefix}" before it and nothing else.'
    listed = ", ".join(f"{n + 1}:{texts[place].split()[0]}" for n, place in enumerate(places[: nth + 1]))
    right = texts[places[nth]]
    reasoning = f"Each {kind} about {topic}: {listed}."
    return Problem(right, (*messages, Message("user", question)), reasoning, prefix + right, prefix + right)


def history(draws: Draws, asked: list[tuple[str, str]]) -> tuple[list[Message], list[str]]:
    """The turns in which so many (kind, topic) are asked for and written, and the texts in them, at most 20."""
    words = [draws.some(pool, len(asked)) for pool in (FIRST, WEATHER, DOES, PLACES)]
    texts = [f"{' '.join(text)}." for text in zip(*words, strict=True)]
    messages = []
    for (kind, topic), text in zip(asked, texts, strict=True):
        messages += [Message("user", f"Write a {kind} about {topic}."), Message("assistant", text)]
    return messages, texts


def _another(draws: Draws, wanted: tuple[str, str]) -> tuple[str, str]:
    """A request that is not the wanted one but, as a rule, has its kind or its topic."""
    while True:
        kind = wanted[0] if draws.chance(0.4) else draws.pick(KINDS)
        topic = wanted[1] if draws.chance(0.4) else draws.pick(TOPICS)
        if (kind, topic) != wanted:
            return kind, topic
