"""Suite files: those that come with the project load, and what is wrong with another is one line."""

from pathlib import Path

import pytest

from evals.running import commands, suite
from tests.support import Tool
from validate.errors import InputError

PLAIN = """
description = "some"
arms = "cpu-bf16"

[[tasks]]
name = "gsm8k"
repeats = 2
margin = 0.02
"""


@pytest.mark.parametrize("name", suite.names())
def test_every_suite_has_an_engine_and_stays_within_what_is_served(name: str) -> None:
    loaded = suite.load(name)
    arms = loaded.arm_set()
    drafts = (arms.engine.get("speculative_config") or {}).get("num_speculative_tokens", 0)
    assert loaded.concurrency * (1 + drafts) <= suite.SERVED
    assert loaded.concurrency <= arms.engine["max_num_seqs"]


def test_the_protocol_of_a_release() -> None:
    for name in ("gb300-tp8", "gb300-tp16", "gb300-tp8-dspark", "gb300-tp16-dspark"):
        asked = {task.name: task.repeats for task in suite.load(name).tasks}
        assert asked == {"aime25": 32, "gpqa_diamond": 8, "gsm8k": 4, "mrcr_openai": 1, "mrcr_v2": 1}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("repeats = 2", "repeats = 0", "tasks.0.repeats: Input should be greater than or equal to 1"),
        ("repeats = 2", "repeats = 2\nitems = 1", "tasks.0.items: Input should be greater than or equal to 2"),
        ("margin = 0.02", "", "tasks.0.margin: Field required"),
        ("margin = 0.02", "margin = 2", "tasks.0.margin: Input should be less than 1"),
        ("margin = 0.02", "margin = 0.02\nshots = 5", "tasks.0.shots: Extra inputs are not permitted"),
        ('name = "gsm8k"', 'name = "mmlu"', "there is no task mmlu; there are aime25, "),
        ('arms = "cpu-bf16"', 'arms = "cpu-bf16"\nlimit = 3', "limit: Extra inputs are not permitted"),
        ("[[tasks]]", "[[tasks]", "malformed suite"),
        ("[[tasks]]", 'base = "none"\n[[tasks]]', "unknown suite 'none'"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(PLAIN.replace(old, new))
    with pytest.raises(InputError) as raised:
        suite.load(str(file))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_base_is_overlaid(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PLAIN + '[[tasks]]\nname = "aime25"\nrepeats = 4\nmargin = 0.1\n[engine]\nseed = 1\n')
    file = tmp_path / "other.toml"
    task = '[[tasks]]\nname = "gsm8k"\nrepeats = 7\nmargin = 0.01\n'
    file.write_text(f'base = "mine.toml"\nwithout = ["aime25"]\nconcurrency = 8\n[engine]\nmax_num_seqs = 8\n{task}')
    made = suite.load(str(file))
    assert (made.name, made.description, made.arms, made.concurrency) == ("other", "some", "cpu-bf16", 8)
    assert made.engine == {"seed": 1, "max_num_seqs": 8}
    assert [(task.name, task.repeats) for task in made.tasks] == [("gsm8k", 7)]
    file.write_text('base = "none.toml"')
    with pytest.raises(InputError, match=r"cannot read the suite .*none.toml: No such file"):
        suite.load(str(file))


def test_a_task_twice_an_unknown_suite_and_engine_arguments_that_are_the_project_s(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(PLAIN + PLAIN[PLAIN.index("[[tasks]]") :])
    with pytest.raises(InputError, match="gsm8k is named twice"):
        suite.load(str(file))
    with pytest.raises(InputError, match="unknown suite 'none': there are gb300-tp16, "):
        suite.load("none")
    file.write_text(PLAIN + '[engine]\nmodel = "other"\n')
    with pytest.raises(InputError, match=r"malformed suite mine: .*engine.model: the suite sets it itself"):
        suite.load(str(file)).arm_set()


def test_the_suite_s_engine_arguments_take_the_place_of_the_arm_set_s(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(PLAIN + "[engine]\nmax_num_batched_tokens = 4096\n")
    engine = suite.load(str(file)).arm_set().engine
    assert engine["max_num_batched_tokens"] == 4096
    assert engine["max_num_seqs"] == 72


def test_servers_are_started_with_the_suite_s_own_arguments(tool: Tool) -> None:
    text = commands.render("gb300-tp8", suite.load("gb300-tp8"))
    assert text.count("--max-model-len 1048576") == text.count("--reasoning-parser kimi_k3") == 4  # two nodes, two paths
    assert "python -m validate evals gb300-tp8 --default-url http://$HEAD:8000" in text
    assert tool("evals", "gb300-tp8", "--commands").stdout == text + "\n"
