"""The command line: bad data is one line and exit code 3, before an engine is started; runs are begun, resumed and refused."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from tests.evals.running import made_up
from tests.support import Tool


def fewer(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows[:-1]


def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    name = next(name for name, value in rows[1].items() if isinstance(value, str) and not value.startswith("["))
    return [rows[0], rows[1] | {name: rows[1][name] + " "}, *rows[2:]]


def without_column(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [dict(list(row.items())[1:]) for row in rows]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("gsm8k", fewer, "2 rows, 3 are in made up"),
        ("gpqa_diamond", changed, "1 of 3 rows are not those of made up, the first of them row 2"),
        ("mrcr_openai", without_column, "lacks the column prompt of mrcr_openai"),
        ("aime25", None, "cannot be read as jsonl"),
    ],
)
def test_bad_data_is_refused_before_anything_is_begun(tool: Tool, tmp_path: Path, name: str, change: Any, said: str) -> None:
    data = made_up.data(tmp_path / "data", name)
    if change is None:
        path = data / f"{name}.jsonl"
        path.write_bytes(path.read_bytes()[:-12])
    else:
        made_up.write(data, name, change(made_up.ROWS[name]))
    file = made_up.suite(tmp_path / "mine.toml", name)
    error = tool.refused("evals", str(file), "--data", str(data))
    assert said in error
    assert made_up.SECRET not in error
    assert not (tmp_path / "runs").exists()


def test_a_folder_without_the_set_is_refused(tool: Tool, tmp_path: Path) -> None:
    file = made_up.suite(tmp_path / "mine.toml", "gsm8k")
    assert "holds 0 files of gsm8k" in tool.refused("evals", str(file), "--data", str(tmp_path))


def test_what_is_asked_for_wrongly_is_one_line(tool: Tool, tmp_path: Path) -> None:
    file = str(made_up.suite(tmp_path / "mine.toml", "practice_integers items=2"))
    for said, *given in (
        ("unknown suite 'none'", "none"),
        ("--arm other: the arms are default, default-again, specialized, or all", file, "--arm", "other"),
        ("-k 'none' selects none of the tasks practice_integers", file, "-k", "none"),
        ("unknown fault 'none' of a whole engine", file, "--plant", "none"),
        ("faults are planted in the stand-in, in process", file, "--plant", "error-grows", "--specialized-url", "http://x:1"),
        ("it holds no run of evals", "--resume", str(tmp_path)),
        ("gb300-tp8 is not the stand-in: name its servers", "pre-merge"),
    ):
        assert said in tool.refused("evals", *given)


def test_a_run_is_resumed_with_what_it_was_begun_with(tool: Tool, tmp_path: Path) -> None:
    file = str(made_up.suite(tmp_path / "mine.toml", "practice_integers items=2"))
    run = tmp_path / "run"
    run.mkdir()
    (run / "begun.json").write_text(json.dumps({"suite": file, "keyword": "integers"}))
    assert "with another keyword: it was begun with integers, not x" in tool.refused("evals", "--resume", str(run), "-k", "x")
    assert "with another suite: it was begun with" in tool.refused("evals", "practice", "--resume", str(run))
