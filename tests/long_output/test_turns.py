"""Turns that are dictated within an output: what is the model's own."""

from hypothesis import given
from hypothesis import strategies as st

from validate.equivalence import tasks
from validate.standin.turns import Conversation, answers

END, STOP = 3, 9
TURNS = ((5, 6, 7), (5, 8), (STOP,))


def spoken(turns: tuple[tuple[int, ...], ...], said: list[list[int]]) -> list[int]:
    """The output of a model that says these answers, as the engine dictates the turns."""
    tokens: list[int] = []
    conversation = Conversation(turns, END)
    for answer in said:
        for token in answer:
            tokens.append(token)
            conversation.take([token])
            assert not conversation.due or token == END
        while conversation.due:
            tokens.append(conversation.due[0])
            conversation.take(tokens[-1:])
    return tokens


def test_each_end_is_followed_by_the_next_turn_and_the_last_by_the_stop() -> None:
    tokens = spoken(TURNS, [[1, END], [2, 2, END], [END]])
    assert tokens == [1, END, 5, 6, 7, 2, 2, END, 5, 8, END, STOP]
    assert answers(tokens, TURNS, END) == [(0, 2), (5, 8), (10, 11)]


def test_an_answer_that_is_cut_off_is_the_models_and_half_a_turn_is_not() -> None:
    tokens = spoken(TURNS, [[1, END], [2, 2]])
    assert answers(tokens, TURNS, END) == [(0, 2), (5, 7)]
    assert answers(tokens[:4], TURNS, END) == [(0, 2)]


def test_an_output_without_turns_is_all_the_models() -> None:
    assert answers([1, END, 2], (), -1) == [(0, 3)]
    assert answers([], (), -1) == []


@given(st.lists(st.lists(st.integers(10, 20), max_size=6), min_size=3, max_size=3))
def test_own_and_dictated_tokens_are_all_tokens(said: list[list[int]]) -> None:
    said = [[*answer, END] for answer in said]
    tokens = spoken(TURNS, said)
    assert [tokens[start:end] for start, end in answers(tokens, TURNS, END)] == said


def test_an_output_of_the_practice_model_asks_one_shape_and_ends_with_what_no_text_holds() -> None:
    made = list(tasks.long("practice", 3, 4))
    for task in made:
        assert len(task.turns) == 4  # three questions more, and the stop
        assert task.turns[-1] == task.stops
        assert task.stops[0] not in {token for turn in (task.prompt, *task.turns[:-1]) for token in turn}
        assert all(turn.count(task.end) == 1 for turn in (task.prompt, *task.turns[:-1]))
    assert len({task.prompt for task in made}) == 3
    assert list(tasks.long("practice", 3, 4)) == made


def test_words_come_with_answers_where_they_are_canaries() -> None:
    assert all(task.text and task.answer for task in tasks.canaries("words", 8))
    assert len({task.text for task in tasks.long("words", 8, 0)}) == 8
