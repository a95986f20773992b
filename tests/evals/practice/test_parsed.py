"""Content and reasoning are told apart as Kimi K3's parser of vLLM 0.33.0 does."""

import pytest

from evals.practice import chat, choices, integers, needles, stories

THINK, ENDED, MESSAGE = "<|close|>think<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"
OPENED = "<|open|>response<|sep|>"


@pytest.mark.parametrize("shape", [integers, choices, stories, needles], ids=lambda shape: shape.SHAPE)
@pytest.mark.parametrize("thinking", [True, False])
def test_what_the_model_is_to_write_is_read_back(shape: object, thinking: bool) -> None:
    for index in range(20):
        item = shape.item(3, index)  # type: ignore[attr-defined]
        text = chat.answer(item, thinking).removesuffix(chat.END)
        assert chat.parsed(text, thinking) == (item.content, item.reasoning if thinking else None)


@pytest.mark.parametrize(
    ("text", "content", "reasoning"),
    [
        ("still thinking", None, "still thinking"),
        ("", None, None),
        (f"thought{THINK}", None, "thought"),
        (f"thought{THINK}{OPENED}cut o", "cut o", "thought"),
        (f"thought{THINK}bare{ENDED}{MESSAGE}", "bare", "thought"),
        (f"{OPENED}no thought{ENDED}{MESSAGE}", "no thought", None),
        (f"{THINK}{OPENED}{ENDED}{MESSAGE}", None, None),
        (f"a{THINK}{OPENED}b{THINK}c{ENDED}", f"b{THINK}c", "a"),
    ],
)
def test_what_is_cut_off_or_lacks_an_element(text: str, content: str | None, reasoning: str | None) -> None:
    assert chat.parsed(text, True) == (content, reasoning)
