"""Arm files: those of the suite load, arms differ in one thing, and what is wrong is one line."""

from pathlib import Path

import pytest

from tests.equivalence.doubles import arm_set
from tests.support import Tool
from validate.equivalence import arm
from validate.errors import InputError

SOUND = """
description = "d"
model = "m"
layers = 2
attn_res_block = 1
prompt_ids = [3, 9]
[engine]
max_model_len = 64
max_num_seqs = 4
max_num_batched_tokens = 32
[[scenes]]
name = "some"
kind = "alone"
lengths = [1]
"""


def written(folder: Path, text: str, name: str = "a.toml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_arms_of_one_file_differ_in_the_backend_alone() -> None:
    for name in arm.names():
        made = arm.load(name)
        default, again, specialized, float32 = (made.arguments(one) for one in arm.NAMES)
        assert default == again
        assert float32 == default | {"dtype": "float32"}
        assert specialized.pop("additional_config") == {"decode_backend": "latency_specialized"}
        assert default.pop("additional_config") == {"decode_backend": "auto"}
        assert specialized == default


def test_a_base_is_overlaid(tmp_path: Path) -> None:
    written(tmp_path, SOUND)
    more = '[[scenes]]\nname = "other"\nkind = "alone"\nlengths = [2]\n'
    made = arm.load(written(tmp_path, f'base = "a.toml"\nwithout = ["some"]\n[engine]\nmax_num_seqs = 5\n{more}', "b.toml"))
    assert made.engine == {"max_model_len": 64, "max_num_seqs": 5, "max_num_batched_tokens": 32}
    assert [scene.name for scene in made.scenes] == ["other"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("layers = 2", "layer = 2", "layer: Extra inputs are not permitted"),
        ("max_num_seqs = 4", "", "engine.max_num_seqs: an integer is wanted"),
        ("max_num_seqs = 4", 'max_num_seqs = 4\nadditional_config = {decode_backend = "auto"}', "what arms differ in"),
        ("max_num_seqs = 4", "max_num_seqs = 4\nmax-logprobs = 5", "engine.max-logprobs: write _ for -"),
        ("max_num_seqs = 4", 'max_num_seqs = 4\nmodel = "x"', "engine.model: the suite sets it itself"),
        ("max_num_seqs = 4", 'max_num_seqs = 4\ndtype = "int8"', "engine.dtype: one of auto"),
        ("[3, 9]", "[9, 3]", "prompt_ids: two ids are wanted"),
        ('kind = "alone"', 'kind = "alonely"', "scenes.0: Input tag 'alonely'"),
        ("lengths = [1]", "lengths = [0]", "greater than or equal to 1"),
        ("lengths = [1]", '[[scenes]]\nname = "some"\nkind = "alone"', "lengths: Field required"),
        (
            "lengths = [1]",
            'lengths = [1]\n[[scenes]]\nname = "f"\nkind = "forced"\nof = ["x"]',
            "no scene before it has that name",
        ),
        ("lengths = [1]", 'lengths = [1]\n[[scenes]]\nname = "some"\nkind = "alone"\nlengths = [2]', "two are named some"),
        ("[engine]", "[engine", "malformed arm set"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in SOUND
    with pytest.raises(InputError) as raised:
        arm.load(written(tmp_path, SOUND.replace(old, new)))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "forced",
    [{"kind": "forced", "name": "f", "of": ["one"]}, {"kind": "dictated", "name": "f", "requests": 1, "length": 4}],
)
def test_nothing_is_forced_with_speculation(forced: dict[str, object]) -> None:
    one = {"kind": "alone", "name": "one", "lengths": [1]}
    engine = arm_set().engine | {"speculative_config": {"method": "dspark"}}
    with pytest.raises(ValueError, match="forces no tokens with speculative decoding"):
        arm_set(one, forced, engine=engine)


def test_refusals_of_the_command(tool: Tool, tmp_path: Path) -> None:
    assert "unknown arm set 'none': there are canaries-cpu, " in tool.refused("record", "none")
    assert "--arm other: the arms are default" in tool.refused("record", "cpu-bf16", "--arm", "other")


def test_bases_that_go_round_in_circles(tmp_path: Path) -> None:
    written(tmp_path, 'base = "b.toml"')
    with pytest.raises(InputError, match="goes round in circles"):
        arm.load(written(tmp_path, 'base = "a.toml"', "b.toml"))


def test_the_scenes_are_listed_without_an_engine(tool: Tool) -> None:
    done = tool("record", "cpu-bf16", "--dry-run", "-k", "decode and not forced")
    assert done.returncode == 0
    assert "17 scenes" in done.stdout
