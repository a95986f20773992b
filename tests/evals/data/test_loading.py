"""Data sets are taken as they are pinned, or refused in one line. The rows are made up."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evals.data import loading, pin
from evals.data.sources import GPQA, GSM8K, MRCR_OPENAI, SOURCES, Source
from validate.errors import InputError

pytest.importorskip("datasets")
SMALL = replace(GSM8K, hub="nobody/small", rows=5)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def questions(count: int = 5) -> list[dict[str, str]]:
    return [{"question": f"What is {n} and {n}?", "answer": f"It is {2 * n}.\n#### {2 * n}"} for n in range(count)]


def written(folder: Path, rows: list[dict], name: str = "gsm8k", suffix: str = ".jsonl") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}{suffix}"
    if suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif suffix == ".parquet":
        import datasets

        datasets.Dataset.from_list(rows).to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def refused(source: Source, folder: Path | None) -> str:
    with pytest.raises(InputError) as error:
        loading.load(source, folder)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_pinned_rows_are_loaded_in_their_order(tmp_path: Path, suffix: str) -> None:
    written(tmp_path, questions(), suffix=suffix)
    pin.pin("gsm8k", tmp_path, "five questions")
    loaded = loading.load(SMALL, tmp_path)
    assert [row["question"] for row in loaded.rows] == [row["question"] for row in questions()]
    assert loaded.identity == "five questions"
    assert len(set(loaded.digests)) == 5


def test_words_that_pandas_takes_for_nothing_are_text(tmp_path: Path) -> None:
    """An option ``None`` or ``NA`` of a CSV file is what is asked."""
    options = dict(zip(GPQA.columns, ("Which?", "None", "NA", "null", "nan"), strict=True))
    written(tmp_path, [options], "gpqa_diamond", ".csv")
    pin.pin("gpqa_diamond", tmp_path, "one")
    assert loading.load(GPQA, tmp_path).rows == (options,)


def test_a_digest_is_of_the_columns_alone_and_of_the_format_not_at_all(tmp_path: Path) -> None:
    found = set()
    for n, suffix in enumerate((".jsonl", ".csv", ".parquet")):
        folder = tmp_path / str(n)
        written(folder, [{**row, "note": str(n)} for row in questions()], suffix=suffix)
        pin.pin("gsm8k", folder, "five")
        found.add(loading.load(SMALL, folder).digest)
    assert len(found) == 1


def test_a_published_file_needs_no_pin(tmp_path: Path) -> None:
    import hashlib

    path = written(tmp_path, questions())
    file = replace(GSM8K.files[0], digest=hashlib.sha256(path.read_bytes()).hexdigest())
    known = replace(SMALL, files=(file,))
    assert loading.load(known, tmp_path).identity == f"nobody/small at {GSM8K.revision}"
    assert refused(replace(known, rows=6), tmp_path).startswith("gsm8k: 5 rows, 6 are in nobody/small at ")


def test_from_the_hub_the_pinned_revision_is_taken_and_its_digests_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    import huggingface_hub

    path = written(tmp_path, questions())
    asked = []

    def download(repository: str, file: str, **named: str) -> str:
        asked.append((repository, file, named))
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    file = replace(GSM8K.files[0], digest=hashlib.sha256(path.read_bytes()).hexdigest())
    known = replace(SMALL, files=(file,))
    assert loading.load(known, None).identity == f"nobody/small at {GSM8K.revision}"
    assert asked == [("nobody/small", file.path, {"repo_type": "dataset", "revision": GSM8K.revision})]
    assert refused(replace(known, rows=6), None).startswith("gsm8k: 5 rows, 6 are in ")
    assert refused(SMALL, None).endswith("its digest differs")


def test_one_of_several_published_files_is_not_the_set(tmp_path: Path) -> None:
    import hashlib

    path = written(tmp_path, questions())
    file = replace(GSM8K.files[0], digest=hashlib.sha256(path.read_bytes()).hexdigest())
    refused(replace(SMALL, files=(file, file)), tmp_path)


def test_a_git_blobs_digest_is_known() -> None:
    assert loading._has(Path(__file__), "git:" + "0" * 40) is False
    blob = subprocess.run(["git", "hash-object", __file__], capture_output=True, text=True, check=True).stdout.strip()
    assert loading._has(Path(__file__), f"git:{blob}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda rows: [*rows[:2], {**rows[2], "answer": "#### 5"}, *rows[3:]],
            "1 of 5 rows are not those of {}, the first of them row 3",
        ),
        (lambda rows: [rows[1], rows[0], *rows[2:]], "2 of 5 rows are not those of {}, the first of them row 1"),
        (lambda rows: rows[:4], "4 rows, 5 are in {}"),
        (lambda rows: [{"question": row["question"]} for row in rows], "lacks the column answer of gsm8k"),
        (lambda rows: [{"q": "a"}], "lacks the columns question, answer of gsm8k"),
    ],
)
def test_other_rows_than_the_pinned_ones_are_refused(tmp_path: Path, change, said: str) -> None:
    written(tmp_path, questions())
    pin.pin("gsm8k", tmp_path, "five questions")
    path = written(tmp_path, change(questions()))
    assert refused(SMALL, tmp_path) == f"{path}{' ' if said.startswith('lacks') else ': '}{said.format('five questions')}"


def test_without_a_pin_a_file_is_refused(tmp_path: Path) -> None:
    written(tmp_path, [{"Question": "a"} | dict.fromkeys(GPQA.columns[1:], "b")] * 3, "gpqa_diamond")
    assert "there is no pin of it: python -m evals.data.pin gpqa_diamond" in refused(GPQA, tmp_path)


def test_the_real_sets_pin_is_named_where_a_row_of_it_was_changed(tmp_path: Path) -> None:
    path = written(tmp_path, questions())
    assert refused(GSM8K, tmp_path) == f"{path}: 5 rows, 1319 are in openai/grade-school-math at 3101c7d, test.jsonl"


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_file_that_is_cut_off_is_refused_without_a_word_of_its_text(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, questions(), suffix=suffix)
    path.write_bytes(path.read_bytes()[:-20])
    said = refused(SMALL, tmp_path)
    assert said.startswith(f"{path} cannot be read as {suffix[1:]}")
    assert "What is" not in said


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    assert refused(SMALL, tmp_path) == (
        f"{tmp_path} holds 0 files of gsm8k, and one is wanted: gsm8k.jsonl, gsm8k.csv, gsm8k.parquet"
    )
    written(tmp_path, [])
    assert "cannot be read" in refused(SMALL, tmp_path)
    written(tmp_path, questions(), suffix=".csv")
    assert "holds 2 files of gsm8k" in refused(SMALL, tmp_path)


def test_a_pin_that_is_none_is_refused(tmp_path: Path) -> None:
    written(tmp_path, questions())
    (tmp_path / "gsm8k.pin.json").write_text("{}")
    assert refused(SMALL, tmp_path).startswith(f"{tmp_path / 'gsm8k.pin.json'} is no pin")


def test_without_the_hub_the_other_way_is_named() -> None:
    said = refused(MRCR_OPENAI, None)
    assert "cannot be had from the hub" in said
    assert said.endswith("or give --data DIR with mrcr_openai.jsonl, .csv or .parquet")


def test_pinning_says_what_is_wrong_with_exit_code_3(tmp_path: Path) -> None:
    for arguments, said in (
        ([], "NAME DIR [WHAT]"),
        (["gsm8k", str(tmp_path)], "holds 0 files"),
        (["gsm9k", str(tmp_path)], "there is no data set gsm9k"),
    ):
        ended = subprocess.run([sys.executable, "-m", "evals.data.pin", *arguments], capture_output=True, text=True)
        assert ended.returncode == 3
        assert said in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_sources_are_whole() -> None:
    for name, source in SOURCES.items():
        assert name == source.name
        assert all(file.digest for file in source.files)
        if source.hub:
            assert source.rows > 0
            assert len(source.revision) == 40
        else:
            assert source.parts
            assert source.elsewhere


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_secret_set_s_text_stays_in_no_cache(tmp_path: Path, suffix: str) -> None:
    rows = [dict.fromkeys(GPQA.columns, f"zyxomancy {n}") for n in range(3)]
    path = written(tmp_path / "data", rows, "gpqa_diamond", suffix)
    pin.pin("gpqa_diamond", path.parent, "made up")
    assert len(loading.load(GPQA, path.parent).rows) == 3
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file() and b"zyxomancy" in file.read_bytes()]
