import hashlib
import re

import pytest

from evals.practice import choices, integers, needles, stories
from evals.practice.item import split_of
from tests.evals.practice.readings import READINGS

SHAPES = {shape.SHAPE: shape for shape in (integers, choices, stories, needles)}
ENDS = {"integers": r"\\boxed\{T\}$", "choices": r"\nAnswer: T$", "stories": r"\n#### T$", "needles": r"^T$"}
# Of 300 training and 300 test items: the same on any platform and Python.
DIGESTS = {
    "integers": "9c19b9ad136a7f2a",
    "choices": "aa6daf08d21ed2ed",
    "stories": "6075b720092f9e1d",
    "needles": "45b9724d6251790a",
}
every_shape = pytest.mark.parametrize("name", SHAPES)


@every_shape
def test_an_item_depends_on_seed_index_and_split_alone(name: str) -> None:
    shape = SHAPES[name]
    items = [shape.item(seed, index, split) for split in ("train", "test") for seed in (0, 1) for index in (0, 1, 2)]
    again = [shape.item(seed, index, split) for split in ("train", "test") for seed in (0, 1) for index in (0, 1, 2)]
    assert items == again
    assert len({item.messages for item in items}) == len(items)
    assert items[-1].id == f"{name}/test/1/2"


@every_shape
def test_items_are_those_of_other_platforms(name: str) -> None:
    items = [SHAPES[name].item(0, index, split) for split in ("train", "test") for index in range(300)]
    assert hashlib.sha256(repr(items).encode()).hexdigest()[:16] == DIGESTS[name]


@every_shape
def test_the_target_is_right_and_the_content_states_it(name: str) -> None:
    for index in range(700):
        item = SHAPES[name].item(0, index)
        assert READINGS[name](item)[1] == item.target, item
        assert re.search(ENDS[name].replace("T", re.escape(item.target)), item.content), item
        assert [message.role for message in item.messages] == (["user", "assistant"] * len(item.messages))[: len(item.messages)]


@every_shape
def test_no_question_of_a_test_is_a_question_of_training(name: str) -> None:
    """The split hangs on the key alone, and the key on what the words ask alone, so no seed and index can break it."""
    key_of: dict[object, str] = {}
    asked: dict[str, set[object]] = {"train": set(), "test": set()}
    for split, count in (("train", 1500), ("test", 300)):
        for index in range(count):
            item = SHAPES[name].item(0, index, split)
            assert split_of(name, item.key) == split
            asks = READINGS[name](item)[0]
            assert key_of.setdefault(asks, item.key) == item.key
            asked[split].add(asks)
    assert not asked["train"] & asked["test"]


@every_shape
def test_repeated_questions_are_few(name: str) -> None:
    assert len({SHAPES[name].item(0, index, "test").key for index in range(300)}) > 285


@pytest.mark.parametrize("name", ["integers", "stories", "choices"])
def test_every_step_of_the_reasoning_is_true(name: str) -> None:
    for index in range(700):
        item = SHAPES[name].item(0, index)
        steps = re.findall(r"(?<![\d+x-])([\d+x-]+)=([\d+x-]+)", item.reasoning)
        assert steps or name == "choices"
        for left, right in steps:
            assert eval(left.replace("x", "*")) == eval(right.replace("x", "*")), (left, right, item)


def test_the_reasoning_goes_through_the_options_and_ends_with_the_right_one() -> None:
    facts = {substance.name: substance for substance in choices.SUBSTANCES}
    for index in range(500):
        item = choices.item(0, index)
        options = dict(re.findall(r"^([A-D])\) (\w+)$", item.messages[0].content, re.MULTILINE))
        said = re.findall(r"([A-D])\) (\w+)((?: [a-z]+)+ \w+|) ([A-D])[,.]", item.reasoning)
        assert [(letter, option, letter) for letter, option in options.items()] == [(a, name, b) for a, name, _, b in said]
        for _, name, fact, _ in said:
            if fact:
                one = facts[name]
                assert fact in (f" weighs {one.weight}", f" melts at {one.melts}", f" is {one.colour}")
        assert item.reasoning.endswith(f" {item.target}: {item.target}) {options[item.target]}.")
        assert item.content.startswith(f"It is {options[item.target]}.")


def test_a_story_is_its_numbers_whoever_is_in_it() -> None:
    assert all(re.fullmatch(r"\d+([+-]\d+|\+\dx\d+|\*\d)+", stories.item(0, index).key) for index in range(300))


def test_weights_and_melting_points_decide() -> None:
    assert len({substance.weight for substance in choices.SUBSTANCES}) == len(choices.SUBSTANCES)
    assert len({substance.melts for substance in choices.SUBSTANCES}) == len(choices.SUBSTANCES)
