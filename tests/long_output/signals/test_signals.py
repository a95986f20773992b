"""Each sign on made-up outputs, and what is none."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long_output.made_up import ASKED, output
from validate.long_output.signals import compression, control, runs, scripts
from validate.long_output.signals.table import SIGNALS
from validate.records.arm import Top

WORDS = ["quick", "brown", "fox", "jumps", "lazy", "dog", "seven", "wizards", "brew", "strange", "potions", "castle", "walls"]
THOUGHT = "2+2=4.<|close|>think<|sep|><|open|>response<|sep|>"
ENDED = "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"


def prose(characters: int, seed: int = 0) -> str:
    draws = random.Random(seed)
    return " ".join(draws.choice(WORDS) + str(draws.randrange(100)) for _ in range(characters))[:characters]


def test_long_sound_text_is_not_repetitive_in_any_window_and_a_loop_is() -> None:
    text = prose(100_000)
    assert compression.repetitive(text, 5.0) is None
    assert compression.shrinks(text) > compression.shrinks(text[:2000])  # why the whole text is not judged
    assert compression.shrinks("I will check it again. " * 90) > 30
    place = compression.repetitive(text + "I will check it again. " * 400, 5.0)
    assert place is not None
    assert 99_000 <= place <= 101_000
    assert compression.repetitive("again " * 100, 5.0) is None  # too short to say


def test_runs_begin_at_their_first_token_and_need_sixteen() -> None:
    assert runs.run([5, *[0] * 16, 5], {0}) == 1
    assert runs.run([5, *[0] * 15, 5, *[0] * 15], {0}) is None
    assert runs.run([*range(1, 9), *[0, 4] * 8], {0, 4}) == 8


@pytest.mark.parametrize(
    ("text", "leak", "content"),
    [
        (f"{THOUGHT}It is 4.{ENDED}", None, "It is 4."),
        (f"{THOUGHT}It is 4.<|close|>resp", None, "It is 4."),
        ("still thinking", None, "still thinking"),
        (f"{THOUGHT}{ENDED}", None, ""),
        (f"{THOUGHT}It <|sep|>is 4.{ENDED}", len(THOUGHT) + 3, "It is 4."),
        (f"{THOUGHT}It is 4.{ENDED}<|end_of_msg|>", len(THOUGHT + "It is 4." + ENDED), "It is 4."),
        ("2+2<|open|>think=4", 3, "2+2think=4"),
        (f"{THOUGHT}It is 4[PAD].{ENDED}", len(THOUGHT) + 7, "It is 4."),
        (f"{THOUGHT}A<|close|>think<|sep|>B{ENDED}", len(THOUGHT) + 1, "AthinkB"),
    ],
)
def test_control_tokens_beyond_the_skeleton_leak(text: str, leak: int | None, content: str) -> None:
    assert control.parsed(text) == control.Parsed(leak, content)


def test_letters_of_another_script_count_by_share_and_digits_never() -> None:
    assert scripts.scripts("Abc 123 δ + 中") == {"LATIN", "GREEK", "CJK"}
    assert scripts.changed("x = 12, y = 中" + "a" * 100, {"LATIN"}, 0.05) is None
    assert scripts.changed("a" * 300 + "привет как дела", {"LATIN"}, 0.05) == 300
    assert scripts.changed("abc" + "\ufffd" * 3, {"LATIN"}, 0.05) == 3


SOUND = {"tokens": tuple(range(10, 90)), "texts": (f"{THOUGHT}It is 4.{ENDED}",)}


@pytest.mark.parametrize(
    ("sign", "changes", "position"),
    [
        ("zero run", {"tokens": (*range(10, 74), *[0] * 16)}, 64),
        ("padding run", {"tokens": (*range(10, 74), *[4] * 16)}, 64),
        ("loop", {"tokens": (*range(10, 30), *[7, 8, 9] * 20)}, 20),
        ("leaked control token", {"texts": (f"{THOUGHT}It is<|open|> 4.{ENDED}",)}, 44),
        ("other script", {"texts": (f"{THOUGHT}Это четыре.{ENDED}",)}, 33),
        ("truncated", {"finish": "length"}, 80),
        ("empty answer", {"texts": (f"{THOUGHT}{ENDED}",)}, 0),
        ("empty answer", {"texts": ("2+2=4, so it is 4.",)}, 0),  # it ends in its reasoning
        ("empty answer", {"texts": (f"2+2=4.<|close|>think<|sep|>It is 4.{ENDED}",)}, 0),
        ("empty answer", {"tokens": (), "texts": (), "own": ()}, 0),
        ("non-finite logprob", {"logprobs": (*[-0.5] * 33, float("nan"), *[-0.5] * 46)}, 33),
        ("non-finite logprob", {"top": (*[Top(ids=(1,), logprobs=(-0.5,))] * 5, Top(ids=(1,), logprobs=(float("-inf"),)))}, 5),
    ],
)
def test_each_sign_is_seen_at_its_place_and_nothing_else_is(sign: str, changes: dict[str, object], position: int) -> None:
    seen = {signal.name: place for signal in SIGNALS if (place := signal.find(output(**(SOUND | changes)), ASKED)) is not None}
    assert sign in seen
    assert seen[sign] == position
    assert set(seen) == {sign}


def test_sound_outputs_show_no_sign() -> None:
    assert [signal.name for signal in SIGNALS if signal.find(output(**SOUND), ASKED) is not None] == []


def test_places_are_of_the_whole_output_where_turns_are_dictated() -> None:
    tokens = (*range(100, 140), *range(200, 220), *[7, 8] * 30)
    t = output(tokens=tokens, own=((0, 40), (60, 120)), texts=(SOUND["texts"][0], SOUND["texts"][0]))
    (loop,) = [signal for signal in SIGNALS if signal.name == "loop"]
    assert loop.find(t, ASKED) == 60
    # What is dictated is the suite's own, whatever it holds.
    t = output(tokens=(*range(100, 140), *[7, 8] * 40), own=((0, 40),), texts=(SOUND["texts"][0],))
    assert loop.find(t, ASKED) is None


PIECES = st.sampled_from([*control.MARKERS, *control.SKELETON, "think", "response", "4", " ", "\n", "中", "\ud800", "\ufffd"])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_read(text: str) -> None:
    found = control.parsed(text)
    assert not any(marker in found.content for marker in control.MARKERS) or found.leak is not None
    assert found.leak is None or text[found.leak :].startswith(control.MARKERS)
    compression.repetitive(text * 40, 5.0)
    scripts.changed(text, {"LATIN"}, 0.05)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=80))
def test_a_run_is_what_a_search_of_every_stretch_finds(tokens: list[int]) -> None:
    wanted = [n for n in range(len(tokens) - runs.RUN + 1) if all(token == 0 for token in tokens[n : n + runs.RUN])]
    assert runs.run(tokens, {0}) == (wanted[0] if wanted else None)


@given(st.integers(0, 3000), st.integers(1, 500))
def test_a_place_in_the_text_is_a_token(place: int, tokens: int) -> None:
    assert 0 <= control.token_of("x" * 3000, place, range(tokens)) < tokens


def test_control_tokens_are_one_token_each_however_long() -> None:
    text = "abcd<|close|>think<|sep|>efgh"
    pieces = ["a", "b", "c", "d", "<|close|>", "t", "h", "i", "n", "k", "<|sep|>", "e", "f", "g", "h"]
    for token in range(len(pieces)):
        assert control.token_of(text, len("".join(pieces[:token])), range(len(pieces))) == token


def test_a_leak_is_placed_to_the_token_where_the_ids_are_known() -> None:
    text, tokens = f"{'9' * 30}word <|close|>think<|sep|> and <|sep|>", (*[8] * 30, 5, 1, 6, 2, 7, 2)
    assert control.leaked(text, tokens, (1, 2)) == 35
    assert control.leaked(text, tokens) == control.token_of(text, text.rindex("<|sep|>"), tokens)
    assert control.leaked("sound", (1,), (1,)) is None
