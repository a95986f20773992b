from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from evals.practice import chat, choices, echo, integers, needles, stories, tokenizer

GOLDEN = tokenizer.load()


@pytest.fixture(scope="module")
def loaded() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(tokenizer.FOLDER)


def test_training_again_gives_the_same_bytes(tmp_path: Path) -> None:
    tokenizer.write(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (tokenizer.FOLDER / name).read_bytes(), name


def test_too_little_text_is_refused() -> None:
    with pytest.raises(ValueError, match="train on more text"):
        tokenizer.train(["a few words"])


@given(st.text())
def test_any_text_survives(text: str) -> None:
    assert GOLDEN.decode(GOLDEN.encode(text).ids, skip_special_tokens=False) == text


@given(st.text("0123456789 +-=,.x", min_size=1))
def test_digits_are_never_merged(text: str) -> None:
    tokens = GOLDEN.encode(text).tokens
    assert all(len(token) == 1 for token in tokens if any(character.isdigit() for character in token))


@given(st.text(needles.ALPHABET, min_size=10, max_size=10))
def test_a_text_is_the_same_tokens_behind_a_random_string(prefix: str) -> None:
    text = "Pale rain hides hill."
    assert GOLDEN.encode(prefix + text).ids == GOLDEN.encode(prefix).ids + GOLDEN.encode(text).ids


@pytest.mark.parametrize("word", echo.WORDS)
def test_a_word_of_a_text_is_one_token(word: str) -> None:
    assert len(GOLDEN.encode(word if word.istitle() else f" {word}").ids) == 1


def test_entries() -> None:
    assert GOLDEN.get_vocab_size() == tokenizer.ENTRIES
    assert [GOLDEN.token_to_id(token) for token in chat.SPECIAL] == list(range(len(chat.SPECIAL)))
    for role in ("user", "assistant"):
        assert len(GOLDEN.encode(f'message role="{role}"').ids) == 1


def test_transformers_loads_it(loaded: PreTrainedTokenizerBase) -> None:
    assert len(loaded) == tokenizer.ENTRIES
    assert loaded.eos_token_id == GOLDEN.token_to_id(chat.END)
    assert loaded.pad_token_id == GOLDEN.token_to_id(chat.PAD)


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("shape", [integers, choices, stories, needles], ids=lambda shape: shape.SHAPE)
def test_the_template_writes_what_the_corpus_holds(loaded: PreTrainedTokenizerBase, shape, thinking: bool) -> None:
    for index in range(20):
        item = shape.item(5, index)
        messages = [message._asdict() for message in item.messages]
        prompt, answer = chat.prompt(item.messages, thinking), chat.answer(item, thinking)
        ids = loaded.apply_chat_template(messages, add_generation_prompt=True, thinking=thinking, return_dict=False)
        assert ids == GOLDEN.encode(prompt).ids
        messages.append({"role": "assistant", "content": item.content, "reasoning_content": item.reasoning})
        ids = loaded.apply_chat_template(messages, thinking=thinking, return_dict=False)
        assert ids == GOLDEN.encode(prompt).ids + GOLDEN.encode(answer).ids


def test_thinking_is_on_unless_switched_off(loaded: PreTrainedTokenizerBase) -> None:
    def ends(**arguments: object) -> str:
        text = loaded.apply_chat_template(
            [{"role": "user", "content": "a"}], tokenize=False, add_generation_prompt=True, **arguments
        )
        return text.rsplit("<|open|>", 1)[1]

    on, off = "think<|sep|>", "response<|sep|>"
    assert ends() == ends(thinking=True) == ends(enable_thinking=True) == ends(thinking=True, enable_thinking=False) == on
    assert ends(thinking=True, preserve_thinking=True, thinking_effort="max") == on
    assert ends(thinking=False) == ends(enable_thinking=False) == ends(thinking=False, enable_thinking=True) == off
