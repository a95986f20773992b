"""Arms that were recorded on GB300, as the sign-off reads their comparison: each field, and what is not as it should be."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.equivalence.test_drafts import drafting_arms, with_drafts
from tests.equivalence.toy import Arms, arms
from tests.signoff.made import CPU, GB300, IMAGE
from validate.equivalence import arm as arm_sets
from validate.equivalence.compare import session
from validate.records import arm_folder, provenance, seal
from validate.signoff.evidence import Evidence
from validate.signoff.reading import engines, lacking
from validate.signoff.reading.gathering import gathered


@pytest.fixture(scope="module")
def sound() -> Arms:
    return arms()


OTHER = GB300.model_copy(update={"gpus": ("NVIDIA H200, 1, 9.0",)})


def read(folder: Path, given: Arms, arm_set: str, **changes: Any) -> Evidence:
    """Of arms of a set; ``changes`` by the arm's name, or of all."""
    known = arm_sets.load(arm_set)
    paths = []
    for arm in given:
        own = changes.get(arm.manifest.name, {}) | changes.get("every", {})
        manifest = {
            "stand_in": False,
            "machine": GB300,
            "arm_set": arm_set,
            "scenes": tuple(lacking._scenes(arm_set)),
            "engine": known.engine | {"model": known.model, "block_size": 16},
            "environment": known.environment | {"VLLM_CACHE_ROOT": "/somewhere"},
            "versions": {"vllm": "0.33.0"},
            **provenance.code(),
            "dirty": False,
        }
        paths.append(folder / arm.manifest.name)
        paths[-1].mkdir(parents=True)
        arm_folder.write_manifest(paths[-1], arm.manifest.model_copy(update=manifest | own))
        arm_folder.append(paths[-1], arm.transcripts)
        if arm.steps:
            arm_folder.write_steps(paths[-1], arm.steps)
        seal.seal(paths[-1])
    session.run((paths[0], paths[1], paths[2]), folder, Console(file=StringIO()))
    (found,) = gathered([folder]).evidence
    return found


def test_a_record_of_gb300(sound: Arms, tmp_path: Path) -> None:
    found = read(tmp_path, sound, "gb300-tp8", default={"start": "2025-01-01T00:00:00Z"})
    code = provenance.code()
    assert (found.layer, found.part, found.runs_on, found.drafts) == ("equivalence", engines.WHOLE, "gb300", "none")
    assert (found.suite, found.code, found.machine.image) == (code["commit"], code["source"], IMAGE)
    assert (found.vllm, found.weights) == ("vllm 0.33.0", sound.specialized.manifest.model)
    assert found.deployment["VLLM_COMPUTE_NANS_IN_LOGITS"] == "1"
    assert found.deployment["kv_cache_dtype"] == "fp8"
    assert not {"VLLM_CACHE_ROOT", "model", "max_model_len", "speculative_config"} & set(found.deployment)
    assert found.attested
    assert found.proof
    assert "specialized" in found.apart
    assert found.start == "2025-01-01T00:00:00Z"
    assert [arm.verified for arm in found.arms] == [True] * 3
    assert found.planted is None
    assert found.lacks == ()


def test_drafts_and_company_are_told(sound: Arms, tmp_path: Path) -> None:
    drafted = Arms(*map(with_drafts, drafting_arms(sound, lambda n: 0.6)))
    assert read(tmp_path / "a", drafted, "gb300-tp8-dspark").drafts == "dspark 7"
    found = read(tmp_path / "b", sound, "company-gb300-tp8")
    assert (found.layer, found.part) == ("races", engines.COMPANY)
    assert found.lacks == ("without its check of changing company",)  # the toy repeats nothing


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"every": {"stand_in": True}}, "runs_on", "emulated"),
        ({"every": {"machine": CPU}}, "runs_on", "emulated"),
        ({"every": {"machine": OTHER}}, "runs_on", "hopper"),
        ({"every": {"machine": GB300.model_copy(update={"gpus": (*GB300.gpus, *OTHER.gpus)})}}, "runs_on", "other"),
        ({"default": {"planted": "logits-scaled"}}, "planted", "logits-scaled"),
        ({"default-again": {"dirty": True}}, "dirty", True),
    ],
)
def test_each_arm_counts(sound: Arms, tmp_path: Path, changes: dict[str, Any], field: str, value: object) -> None:
    assert getattr(read(tmp_path, sound, "gb300-tp8", **changes), field) == value


def test_what_is_less_than_the_whole_is_named(sound: Arms, tmp_path: Path) -> None:
    scenes = lacking._scenes("gb300-tp8")
    found = read(tmp_path / "a", sound, "gb300-tp8", every={"scenes": tuple(scenes[1:])})
    assert found.lacks == (f"without 1 scenes of gb300-tp8, the first of them {scenes[0]}",)
    found = read(tmp_path / "b", sound, "gb300-tp8", every={"commit": "d" * 40})
    assert found.lacks == (f"recorded by commit {'d' * 40} of the suite, and compared by {provenance.code()['commit']}",)
    uncounted = replace(sound, specialized=replace(sound.specialized, steps=None))
    assert read(tmp_path / "c", uncounted, "gb300-tp8").attested is False
