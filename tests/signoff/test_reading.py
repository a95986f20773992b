"""Records of engines and benchmarks into evidence: what ran, its proof of path, its figures; and what is said of its arms."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evals.comparing import session as evals_session
from tests.evals.comparing.arms import write
from tests.evals.comparing.test_comparison import tasks
from tests.long_output.made_up import ASKED, arms
from validate.equivalence.compare import shown
from validate.errors import InputError
from validate.long_output.comparing.comparison import compare
from validate.records import folder, seal
from validate.records.model import Machine
from validate.report.console import console
from validate.signoff.evidence import Evidence, Intervals, Lines
from validate.signoff.reading import lacking
from validate.signoff.reading.gathering import gathered
from validate.verdict import Verdict

GB300 = Machine(system="Linux", cpu="by hand", cores=2, memory_gib=8.0, gpus=("NVIDIA GB300, 1, 10.3",) * 8, image="sha256:1")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sealed arms of benchmarks, as if of GB300, and their comparison."""
    runs = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("default", "default-again", "specialized"), 1):
        seal.seal(write(runs / name, name, *tasks(seed), stand_in=False, machine=GB300, commit="c" * 40, dirty=False))
    evals_session.run(runs / "default", runs / "default-again", runs / "specialized", runs, console())
    return runs


@pytest.fixture
def runs(compared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compared, tmp_path / "runs")


def only(runs: Path) -> Evidence:
    (found,) = gathered([runs]).evidence
    return found


def test_benchmarks_say_what_ran_how_it_is_proven_and_what_they_rest_on(runs: Path) -> None:
    found = only(runs)
    assert (found.layer, found.part, found.runs_on, found.attested) == ("evals", "benchmarks", "gb300", True)
    assert "specialized" in str(found.proof)
    assert found.machine.image == "sha256:1"
    assert set(found.data) == {"hard", "easy"}
    (plot,) = found.plots
    assert isinstance(plot, Intervals)
    assert [(one.label, one.margin) for one in plot.intervals] == [("hard", -4.0), ("easy", -2.0)]
    assert {table.title for table in found.tables} >= {"Scores", "Flipped items"}


def test_arms_that_were_given_are_verified(runs: Path) -> None:
    assert [(arm.name, arm.verified) for arm in only(runs).arms] == [
        ("default", True),
        ("default-again", True),
        ("specialized", True),
    ]


def test_a_field_that_an_older_record_lacks_is_no_contradiction(compared: Path, tmp_path: Path) -> None:
    runs = shutil.copytree(compared, tmp_path / "runs")
    comparison = next(runs.glob("*-compare-evals/comparison.json"))
    said = json.loads(comparison.read_text())
    for name in ("default", "default-again", "specialized"):
        file = runs / name / "manifest.json"
        manifest = json.loads(file.read_text())
        del manifest["serves"]  # which is null there
        file.write_text(json.dumps(manifest))
    said["records"] = [seal.seal(runs / name) for name in ("default", "default-again", "specialized")]
    comparison.write_text(json.dumps(said))
    seal.seal(comparison.parent)
    assert all(arm.verified for arm in only(runs).arms)


def test_an_arm_that_is_not_at_hand_is_not_verified(compared: Path, tmp_path: Path) -> None:
    there = shutil.copytree(next(compared.glob("*-compare-evals")), tmp_path / "comparison")
    file = there / "comparison.json"
    file.write_text(file.read_text().replace(str(compared), "/elsewhere"))
    seal.seal(there)
    assert not any(arm.verified for arm in only(there).arms)


def test_an_arm_that_was_altered_after_the_comparison_is_refused(compared: Path, tmp_path: Path) -> None:
    runs = shutil.copytree(compared, tmp_path / "runs")
    file = runs / "specialized/responses.jsonl"
    file.write_text(file.read_text().replace('"scores":{"exact":0.0}', '"scores":{"exact":1.0}'))
    with pytest.raises(InputError, match=r"specialized was altered after the run: responses.jsonl was changed"):
        gathered([runs])
    seal.seal(runs / "specialized")  # with new hashes it is another record than the one that was compared
    comparison = next(runs.glob("*-compare-evals/comparison.json"))
    comparison.write_text(comparison.read_text().replace(str(compared), str(runs)))
    seal.seal(comparison.parent)
    with pytest.raises(InputError, match="specialized is not the record that was compared"):
        gathered([comparison.parent])


def rewritten(runs: Path, **changes: Any) -> None:
    """The comparison written anew by hand, with new hashes."""
    file = next(runs.glob("*-compare-evals/comparison.json"))
    text = file.read_text()
    for folder_ in json.loads(text)["folders"]:
        text = text.replace(str(Path(folder_).parent), str(runs))
    file.write_text(json.dumps(json.loads(text) | changes))
    seal.seal(file.parent)


def comparison_of(runs: Path) -> dict[str, Any]:
    return dict(json.loads(next(runs.glob("*-compare-evals/comparison.json")).read_text()))


def test_a_comparison_must_name_the_record_of_each_arm(runs: Path) -> None:
    rewritten(runs, records=[], folders=[])
    with pytest.raises(InputError, match="3 arms of 0 folders and 0 digests"):
        gathered([runs])


def test_a_record_is_not_two_arms(runs: Path) -> None:
    records = comparison_of(runs)["records"]
    rewritten(runs, records=[records[0], records[0], records[2]])
    with pytest.raises(InputError, match="two of its arms are one record"):
        gathered([runs])


def test_a_comparison_that_says_another_machine_than_its_arm_is_refused(runs: Path) -> None:
    arms = comparison_of(runs)["arms"]
    arms[2]["machine"]["image"] = "sha256:2"
    rewritten(runs, arms=arms)
    with pytest.raises(InputError, match="it says another machine of the arm specialized than"):
        gathered([runs])


def test_a_suite_of_ones_own_is_a_part(runs: Path) -> None:
    suite, by = only(runs).lacks
    assert suite == f"suite by-hand, not {' or '.join(lacking.DEPLOYED)}"
    assert by.startswith("recorded by commit ")  # its arms are made up


def test_long_outputs_are_told_by_signs_and_positions(tmp_path: Path) -> None:
    comparison = compare(arms(), ASKED)
    there = folder.create(tmp_path, "compare")
    shown.write(there, comparison, "", "")
    found = only(tmp_path)
    assert (found.layer, found.part, found.runs_on) == ("equivalence", "long outputs", "emulated")
    assert found.verdict is Verdict.PASS
    assert found.tables[0].title == "Signs of degeneration"
    assert {plot.title for plot in found.plots if isinstance(plot, Lines)} == {
        "Forced decoding: how far apart",
        "Differences of long outputs",
    }
    assert not any(arm.verified for arm in found.arms)
