"""The exercises that are for training alone."""

import re

from evals.practice import echo, needles, recall


def test_an_echo_repeats_all_words_in_their_order_and_none_comes_twice() -> None:
    for index in range(200):
        item = echo.item(0, index)
        asked = item.messages[0].content.removeprefix("Repeat:").removesuffix(".")
        assert item.content == f"So:{asked}."
        words = asked.split()
        assert len(set(words)) == len(words) >= 6
        assert set(words) <= set(echo.WORDS)


def test_recall_gives_the_texts_that_start_with_the_words_asked_for() -> None:
    longest = 0
    for index in range(300):
        item = recall.item(0, index)
        texts = {content.split()[0]: content for role, content in item.messages if role == "assistant"}
        first = re.findall(r'"(\w+)"', item.messages[-1].content)
        assert item.content.split("\n") == [texts[word] for word in first]
        assert 1 < len(first) <= recall.ASKED
        longest = max(longest, len(texts))
    assert longest > needles.TURNS


def test_no_word_of_a_conversation_stands_in_two_of_its_texts() -> None:
    for index in range(300):
        texts = [content for role, content in needles.item(0, index).messages if role == "assistant"]
        words = " ".join(texts).replace(".", "").split()
        assert len(set(words)) == len(words) == 4 * len(texts)
