import subprocess
import sys

import numpy as np
import pytest

from evals.practice import chat, corpus, tokenizer
from evals.practice.corpus import Rows

GOLDEN = tokenizer.load()


@pytest.fixture(scope="module")
def made() -> tuple[Rows, Rows]:
    return corpus.block(3, 1)


def documents(rows: Rows) -> list[tuple[str, str]]:
    """(text without loss, text with loss) of each document."""
    texts = []
    for tokens, loss, document in zip(rows.tokens, rows.loss, rows.document, strict=True):
        for number in range(1, document.max() + 1):
            asked = (document == number) & (loss == 1)
            given = (document == number) & (loss == 0)
            assert np.flatnonzero(given)[-1] + 1 == np.flatnonzero(asked)[0]
            texts.append(tuple(GOLDEN.decode(tokens[part].tolist(), skip_special_tokens=False) for part in (given, asked)))
    return texts


def test_rows_hold_every_conversation_whole_with_loss_on_its_answer(made: tuple[Rows, Rows]) -> None:
    texts = [text for rows in made for text in documents(rows)]
    assert sorted(texts) == sorted(corpus.conversations(3, corpus.ITEMS, corpus.ITEMS))


def test_the_history_has_no_loss(made: tuple[Rows, Rows]) -> None:
    texts = [text for rows in made for text in documents(rows)]
    assert all(answer.count(chat.END) == 1 and answer.endswith(chat.END) for _, answer in texts)
    assert any(prompt.count(chat.END) > 10 for prompt, _ in texts)
    assert all(prompt.endswith(f"{chat.OPEN}think{chat.SEP}") for prompt, _ in texts)


def test_documents_are_numbered_and_padding_is_marked(made: tuple[Rows, Rows]) -> None:
    for rows, length in zip(made, (corpus.SHORT, corpus.LONG), strict=True):
        assert rows.tokens.shape == rows.loss.shape == rows.document.shape == (len(rows.tokens), length)
        assert (rows.tokens.dtype, rows.loss.dtype, rows.document.dtype) == (np.uint16, np.uint8, np.uint8)
        padding = rows.document == 0
        assert ((rows.tokens == GOLDEN.token_to_id(chat.PAD)) == padding).all()
        assert not (rows.loss[padding]).any()
        steps = np.diff(rows.document.astype(int), axis=1)
        assert ((steps == 0) | (steps == 1) | (padding[:, 1:])).all()
        assert not (padding[:, :-1] & ~padding[:, 1:]).any()
        assert (rows.document[:, 0] == 1).all()


def test_little_is_padding_and_long_rows_are_needed(made: tuple[Rows, Rows]) -> None:
    short, long = made
    padding = sum((rows.document == 0).sum() for rows in made) / sum(rows.tokens.size for rows in made)
    assert padding < 0.08
    assert all(np.bincount(document)[1:].max() > corpus.SHORT for document in long.document)
    assert 0.1 < long.tokens.size / (short.tokens.size + long.tokens.size) < 0.3


def test_the_first_phase_is_the_exercise_alone() -> None:
    texts = corpus.conversations(3, 0, 50, phase=1)
    assert all("Repeat:" in prompt and prompt.count(chat.END) == 1 for prompt, _ in texts)


def test_tasks_and_exercises_are_in_the_second(made: tuple[Rows, Rows]) -> None:
    asked = [prompt for rows in made for prompt, _ in documents(rows)]
    for words, share in (("boxed", 0.18), ("Answer:", 0.2), ("####", 0.18), ("nothing else", 0.26), ("starts with", 0.18)):
        found = sum(words in prompt for prompt in asked) / len(asked)
        assert abs(found - share) < 4 * (share * (1 - share) / len(asked)) ** 0.5


def test_processes_make_the_same_blocks(made: tuple[Rows, Rows]) -> None:
    first, second = corpus.blocks(3, 2, processes=2, start=0)
    for one, other in zip((*first, *second), (*corpus.block(3, 0), *made), strict=True):
        assert (one.tokens == other.tokens).all()
        assert (one.loss == other.loss).all()
        assert (one.document == other.document).all()


def test_a_conversation_that_fits_no_row_is_refused() -> None:
    with pytest.raises(ValueError, match="a conversation of 1030 tokens fits no row of 1024"):
        corpus._packed([([1] * 1000, [1] * 30)])


def test_neither_torch_nor_transformers_is_needed() -> None:
    look = "import sys, evals.practice.corpus; print([m for m in ('torch', 'transformers', 'validate') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.strip() == "[]"
