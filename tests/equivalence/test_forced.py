"""Forced decoding: sound paths pass, each kind of fault is found, and what is not decided says what would decide it.

More repeats: ``python -m tests.equivalence.simulation``. FIGURES
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.equivalence.faults import FAULTS
from tests.equivalence.toy import Arms, Plan, arms
from validate.equivalence.compare.comparison import compare
from validate.equivalence.compare.forced import judge
from validate.equivalence.compare.table import table
from validate.verdict import Verdict

SMALL = Plan(requests=5, tokens=32)


@pytest.mark.parametrize("seed", range(1, 7))
def test_the_default_path_against_itself_is_no_alarm(seed: int) -> None:
    assert compare(arms(replace(SMALL, seed=seed), multiple=1.0)).verdict is Verdict.PASS


def test_noise_that_grows_in_the_default_path_too_is_no_alarm() -> None:
    assert compare(arms(multiple=1.5, growth=3.0)).verdict is not Verdict.FAIL


def test_a_path_as_far_off_as_is_allowed_is_neither_passed_nor_failed() -> None:
    """Noise of sqrt(31) times the default's: its differences are ``MULTIPLE`` times those of two default arms."""
    comparison = compare(arms(SMALL, noise=0.04, multiple=31**0.5))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.exit_code == 2
    assert any("not decided by 800 tokens" in finding.text for finding in comparison.findings)


def test_far_noisier_is_found() -> None:
    comparison = compare(arms(SMALL, noise=0.04, multiple=10))
    assert comparison.forced is not None
    size = comparison.forced.statistics[0]
    assert (size.name, size.group, size.verdict) == ("size", "all", Verdict.FAIL)


def test_without_any_noise_the_dtype_decides() -> None:
    quiet = arms(SMALL, noise=0.0)
    assert compare(quiet).verdict is Verdict.PASS
    floor = table(quiet.pairs(), 16)
    assert not floor.again.any()
    assert compare(arms(SMALL, noise=1e-7, rounds_to="float32")).verdict is Verdict.PASS
    fault = FAULTS["one_head_one_rounding"]
    assert compare(arms(SMALL, noise=1e-7, rounds_to="float32", fault=fault)).verdict is Verdict.FAIL


EXPECTED = {
    "stale_after_preemption": {"largest of preempted", "request size of preempted"},
    "prefix_of_wrong_block": {"largest of prefix"},
    "after_partial_acceptance": {"size of all", "kl of all"},
    "fallback_skips_write": {"largest of recycled"},
    "grows": {"growth of all"},
    "at_block_boundaries": {"size of first of a block"},
    "temperature": {"best of all"},
    "shifted": {"best of all"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fault_is_found_where_it_shows(name: str) -> None:
    comparison = compare(arms(fault=FAULTS[name]))
    assert comparison.verdict is Verdict.FAIL
    assert comparison.forced is not None
    seen = {f"{s.name} of {s.group}" for s in comparison.forced.statistics if s.verdict is Verdict.FAIL}
    seen |= {f"{r.name} of {r.scene}" for r in comparison.forced.requests}
    assert seen >= EXPECTED[name]


def test_a_failure_names_where_what_and_how_to_see_it_alone() -> None:
    found = compare(arms(fault=FAULTS["stale_after_preemption"])).findings
    finding = next(finding for finding in found if "largest" in finding.text)
    assert (finding.scene, finding.request, finding.position) == ("preempted", "forced-0", 20)
    for part in (
        "FAIL preempted/forced-0, position 20",
        "default token",
        "specialized token",
        "margin",
        "rerun: nox -s equivalence",
    ):
        assert part in finding.line


def test_a_prefix_of_a_table_is_the_table_of_a_prefix(sound: Arms) -> None:
    whole = table(sound.pairs(), 16)
    part = whole.first(100)
    assert (len(part.request), part.names) == (100, whole.names[:3])
    assert judge(whole.first(0), 0.03).statistics == ()
    np.testing.assert_array_equal(part.specialized, whole.specialized[:100])


def test_too_few_requests_for_an_interval_are_inconclusive(sound: Arms) -> None:
    comparison = compare(arms(Plan(requests=2, scenes=("alone", "eight"))))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert any("too few for an interval" in finding.text for finding in comparison.findings)


def test_a_scene_that_was_batched_alike_twice_is_no_alarm(sound: Arms) -> None:
    """Its default answers are the same to the bit; the specialized path's noise there is that of the other scenes."""
    default = {t.key: t for t in sound.default.transcripts}
    again = tuple(default[t.key] if t.scene == "alone" else t for t in sound.again.transcripts)
    assert compare(replace(sound, again=replace(sound.again, transcripts=again))).verdict is Verdict.PASS
