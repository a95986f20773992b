"""The command that is printed with a finding selects its scene, what that needs, and a proof of path, in that arm set."""

import shlex
from typing import Any

import pytest

from tests.equivalence.toy import Plan, manifest
from validate import keywords
from validate.equivalence import arm, commands
from validate.equivalence.compare import rerun
from validate.equivalence.record import chosen, supposed
from validate.records.arm import ArmManifest


def of(name: str, **fields: Any) -> ArmManifest:
    """The manifest of an arm of all scenes of a set, as far as reruns look at it."""
    arms = arm.load(name)
    scenes = chosen(arms, supposed(arms), None)
    only = tuple(scene.name for scene in scenes if scene.decode_only)
    made = {"arm_set": name, "scenes": tuple(scene.name for scene in scenes), "decode_only": only} | fields
    return manifest("specialized", "latency_specialized", Plan()).model_copy(update=made)


@pytest.mark.parametrize(
    ("scene", "printed"),
    [
        ("arrivals", "nox -s equivalence -- cpu-bf16 -k 'arrivals or decode-1'"),
        ("forced-arrivals", "nox -s equivalence -- cpu-bf16 -k 'arrivals or decode-1'"),
        ("decode-64", "nox -s equivalence -- cpu-bf16 -k decode-64"),
        ("forced-decode-64", "nox -s equivalence -- cpu-bf16 -k decode-64"),
    ],
)
def test_the_command(scene: str, printed: str) -> None:
    assert rerun.command(of("cpu-bf16"), scene) == printed


@pytest.mark.parametrize("name", ["cpu-bf16", "cpu-bf16-drafts", "pre-merge"])
def test_it_selects_what_the_scene_needs(name: str) -> None:
    scenes, recorded = {scene.name: scene for scene in chosen(arm.load(name), supposed(arm.load(name)), None)}, of(name)
    for scene in scenes:
        words = shlex.split(rerun.command(recorded, scene))
        assert words[:6] == ["nox", "-s", "equivalence", "--", name, "-k"]
        selected = [one for one in scenes if keywords.matches(words[6], one)]  # as record.chosen does
        assert scene in selected
        assert {scenes[one].of for one in selected} - {None} <= set(selected)
        assert any(scenes[one].decode_only for one in selected)


def test_of_servers_it_prints_their_commands() -> None:
    printed = rerun.command(of("cpu-bf16", arm_set="gb300-tp8", served=("http://h:8000",)), "forced-arrivals")
    assert printed == "python -m validate record gb300-tp8 -k 'arrivals or decode-1' --commands"
    text = commands.render("gb300-tp8", arm.load("gb300-tp8"), "arrivals or decode-1")
    recordings = [shlex.split(line) for line in text.splitlines() if line.startswith("python -m validate record")]
    assert [words[6] for words in recordings] == ["arrivals or decode-1"] * 3


def test_a_file_s_name_is_quoted() -> None:
    made = of("cpu-bf16", arm_set="my arms.toml")
    assert shlex.split(rerun.command(made, "decode-64"))[4] == "my arms.toml"
