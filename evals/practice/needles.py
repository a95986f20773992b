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
FIRST = (
    *("Pale", "Calm", "Grey", "Soft", "Wild", "Old", "Tiny", "Proud", "Slow", "Dark", "Loud", "Cold", "Brave", "Glad"),
    *("Lost", "Warm", "Neat", "Odd", "Plain", "Quick", "Red", "Sad", "Tall", "Vain", "Wet", "Young", "Kind", "Late"),
)
DO = ("sing", "rest", "turn", "wait", "dance", "hide", "meet", "sink", "play", "fall", "rise", "sleep")
WHERE = ("hill", "lake", "mill", "road", "gate", "sea", "barn", "bridge", "tower", "field", "well", "shore")
IN = ("mist", "rain", "night", "wind", "snow", "sun", "storm", "frost", "fog", "cold", "heat", "dust")
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
    texts = [_text(draws, first, topic) for first, (_, topic) in zip(draws.some(FIRST, len(asked)), asked, strict=True)]
    places = [place for place, request in enumerate(asked) if request == wanted]
    nth = draws.below(needles)
    kind, topic = wanted
    prefix = "".join(draws.pick(ALPHABET) for _ in range(PREFIX))
    messages = []
    for (its_kind, its_topic), text in zip(asked, texts, strict=True):
        messages += [Message("user", f"Write a {its_kind} about {its_topic}."), Message("assistant", text)]
    question = f'Repeat the {ORDINALS[nth]} {kind} about {topic} with "{prefix}" before it and nothing else.'
    messages.append(Message("user", question))
    listed = ", ".join(f"{n + 1} {texts[place].split()[0]}" for n, place in enumerate(places[: nth + 1]))
    right = texts[places[nth]]
    reasoning = f"Each {kind} about {topic}: {listed}. The {ORDINALS[nth]} starts with {right.split()[0]}."
    return Problem(right, tuple(messages), reasoning, prefix + right, prefix + right)


def _another(draws: Draws, wanted: tuple[str, str]) -> tuple[str, str]:
    """A request that is not the wanted one but, as a rule, has its kind or its topic."""
    while True:
        kind = wanted[0] if draws.chance(0.4) else draws.pick(KINDS)
        topic = wanted[1] if draws.chance(0.4) else draws.pick(TOPICS)
        if (kind, topic) != wanted:
            return kind, topic


def _text(draws: Draws, first: str, topic: str) -> str:
    """No two texts of a conversation have the same first word."""
    return f"{first} {topic} {draws.pick(DO)} by the {draws.pick(WHERE)} in the {draws.pick(IN)}."
