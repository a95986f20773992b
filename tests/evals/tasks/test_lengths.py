"""Lengths in tokens, and the documents of both MRCRs that are sorted into them."""

import json
import logging
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.data import o200k, pin
from evals.data.sources import MRCR_OPENAI, MRCR_V2
from evals.grading.response import Response
from evals.tasks import documents, lengths
from tests.evals import made_up
from validate.errors import InputError

EDGES = [4096 * 2**n for n in range(12)]


@pytest.mark.parametrize(
    ("tokens", "doublings", "bounds"),
    [
        (4095, 8, None),
        (4096, 8, (4096, 8192)),
        (8192, 8, (4096, 8192)),
        (8193, 8, (8192, 16384)),
        (16384, 8, (8192, 16384)),
        (524289, 8, (524288, 1048576)),
        (1048576, 8, (524288, 1048576)),
        (1048577, 8, None),  # counted as the shortest elsewhere
        (1048577, 11, (1048576, 2097152)),
        (8388608, 11, (4194304, 8388608)),
        (8388609, 11, None),
    ],
)
def test_bounds(tokens: int, doublings: int, bounds: tuple[int, int] | None) -> None:
    assert lengths.bounds(tokens, doublings) == bounds


@given(st.integers(0, 3 * EDGES[-1]), st.integers(1, 11))
def test_a_number_of_tokens_has_one_length_or_none(tokens: int, doublings: int) -> None:
    within = [(low, high) for low, high in pairwise(EDGES[: doublings + 1]) if low < tokens <= high]
    assert lengths.bounds(tokens, doublings) == (within[0] if within else (4096, 8192) if tokens == 4096 else None)


@given(st.sampled_from([2, 4, 8]), st.integers(0, 3 * EDGES[-1]), st.sampled_from([8, 11]))
def test_a_stratum_says_what_it_was_made_of(needles: int, tokens: int, doublings: int) -> None:
    made = lengths.stratum(needles, tokens, doublings)
    assert lengths.needles(made) == needles
    bounds = lengths.bounds(tokens, doublings)
    assert lengths.parts(made) == ((needles, *bounds) if bounds else None)


def test_strata_outside_of_all_lengths_are_named() -> None:
    assert lengths.stratum(2, 0, 8) == "2 needles"
    assert lengths.stratum(2, 4095, 8) == "2 needles, under 4096 tokens"
    assert lengths.stratum(8, 1048577, 8) == "8 needles, over 1048576 tokens"
    assert lengths.stratum(4, 5000, 8) == "4 needles, 4096-8192 tokens"


class Words:
    """Counts words."""

    def encode_ordinary_batch(self, texts: list[str], num_threads: int) -> list[list[str]]:
        return [text.split() for text in texts]


@pytest.fixture
def openai(tmp_path: Path) -> Path:
    rows = [made_up.openai(0), made_up.openai(1, "word " * 6000), made_up.openai(2, "word " * 2_000_000)]
    (tmp_path / "mrcr_openai.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pin.pin("mrcr_openai", tmp_path, "made up")
    return tmp_path


def test_openais_items_are_sorted_by_prompt_and_answer(openai: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(o200k, "encoding", lambda data, download: Words())
    made = documents.documents(MRCR_OPENAI, str(openai), 2)
    short, middle, long, *again = made
    texts = [turn["content"] for turn in middle["messages"]]
    assert middle["length"] == sum(len(text.split()) for text in (*texts, middle["gold"]))
    assert [lengths.parts(one["stratum"]) for one in made[:3]] == [None, (made_up.openai(1)["n_needles"], 4096, 8192), None]
    assert short["stratum"].endswith("under 4096 tokens")
    assert long["stratum"].endswith("over 1048576 tokens")
    assert [one["stratum"] for one in again] == [one["stratum"] for one in made[:3]]


def test_without_a_vocabulary_openais_items_are_by_needles_and_a_line_says_so(
    openai: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []
    monkeypatch.setattr(o200k, "encoding", lambda data, download: asked.append((data, download)))
    with caplog.at_level(logging.WARNING):
        made = documents.documents(MRCR_OPENAI, str(openai), 1)
    assert [(one["stratum"], one["length"]) for one in made] == [
        (f"{made_up.openai(n)['n_needles']} needles", 0) for n in range(3)
    ]
    assert asked == [(openai, False)]
    (said,) = caplog.messages
    assert said.startswith("mrcr_openai: results are by needles alone, not by length")
    assert o200k.ADDRESS in said
    assert "TIKTOKEN_CACHE_DIR" in said
    assert "\n" not in said


def test_deepminds_items_are_sorted_by_their_own_count(tmp_path: Path) -> None:
    files = made_up.deepmind_files(tmp_path)
    pin.pin("mrcr_v2", tmp_path, "made up")
    made = documents.documents(MRCR_V2, str(tmp_path), 1)
    rows = [row for part in files.values() for row in part]
    for document, row in zip(made, rows, strict=True):
        assert document["messages"] == [{"role": "user", "content": row["queries"]}]
        assert document["length"] == row["context_len"]
        assert document["gold"] == row["answer"]
        assert len(document["prefix"]) == 12
        assert document["stratum"] == lengths.stratum(row["num_relevant"], row["context_len"], 11)
    assert [lengths.parts(one["stratum"])[1:] for one in made] == [(4096, 8192)] * 3 + [(16384, 32768)] * 2 + [(16384, 32768)] * 2


@pytest.mark.parametrize(
    "change",
    [
        {"answer": "short"},
        {"answer": "aB3dE5gH7jK2a text that nobody asked for"},
        {"context_len": "many"},
        {"context_len": ""},
        {"num_relevant": "two"},
    ],
)
def test_a_row_of_another_form_is_named(tmp_path: Path, change: dict[str, str]) -> None:
    made_up.write(tmp_path / made_up.FILE.format(needles=2, bin="upto_128K"), [made_up.deepmind(0), made_up.deepmind(1) | change])
    pin.pin("mrcr_v2", tmp_path, "made up")
    with pytest.raises(InputError, match=r"^mrcr_v2: row 2 does not have the benchmark's form$"):
        documents.documents(MRCR_V2, str(tmp_path), 1)


@settings(deadline=None)  # the first example imports lm-eval
@given(st.integers(0, 10_000), st.integers(4096, EDGES[-1]))
def test_of_any_conversation_the_ideal_answer_has_full_marks_in_both_forms(index: int, tokens: int) -> None:
    pytest.importorskip("lm_eval")
    from evals.tasks.task import grade

    for name, row in (("mrcr_openai", made_up.openai(index)), ("mrcr_v2", made_up.deepmind(index, tokens))):
        document = {"benchmark": name, **documents.MAKERS[name](row)}
        assert set(grade(Response(document["gold"]), document).scores.values()) == {1.0}
        other = document["prefix"] + "7" * 30
        assert set(grade(Response(other), document).scores.values()) == {0.0}
