"""Forced decoding: sound paths pass, each kind of fault is found, and what is not decided says what would decide it.

More repeats: ``python -m tests.equivalence.simulation`` (alarms: 1,920 tokens an arm of 60 requests, half of them forced;
faults: 3,840 of 80; A/A noise of 0.03 nats a logit):

- ``alarms 200 1``, the default path as the specialized one: 200 PASS. ``alarms 200 2``, twice its noise: 200 PASS.
- ``alarms 60 2 0.0000002 float32``: 60 PASS
- ``alarms 200 5.5678``, as far off as is allowed: forced decoding FAIL 5, all by the limits of requests, greedy tokens FAIL 10,
  PASS 8, the others INCONCLUSIVE
- ``faults 5``, twice the noise and the fault; found in, by what first, decoded tokens (median), of them by the common
  comparison: stale_after_preemption 5 (forced 3, tokens 2), 1,605, 5; prefix_of_wrong_block 5 (tokens), 2,401, 5;
  padded_row_written 4 (tokens 3, forced 1), 1,087, 0; after_partial_acceptance 5 (forced 4, tokens 1), 60, 5;
  fallback_skips_write 5 (forced 3, tokens 2), 3,133, 5; grows 5 (forced), 92, 4; at_block_boundaries 5 (forced 4, tokens 1),
  1,019, 0; temperature 5 (forced), 631, 0; shifted 5 (forced), 532, 0; one_head_one_rounding 0, 0. The last moves a logit by
  0.002 nats, a tenth of the A/A noise: no comparison of engines in bf16 can find it; in float32 it is found (below).
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.equivalence.faults import FAULTS
from tests.equivalence.toy import Arms, Plan, arms
from validate.equivalence.compare.allowance import Yardstick
from validate.equivalence.compare.comparison import compare
from validate.equivalence.compare.forced import judge
from validate.equivalence.compare.table import Table, table
from validate.verdict import Verdict

QUIET = Yardstick("A/A", 4.0, 0.045)
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
    assert not floor.noise.any()
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
    comparison = compare(arms(fault=FAULTS["stale_after_preemption"]))
    finding = next(finding for finding in comparison.findings if "largest" in finding.text)
    assert (finding.scene, finding.request, finding.position) == ("preempted", "forced-0", 20)
    for part in (
        "FAIL preempted/forced-0, position 20",
        "default token",
        "specialized token",
        "margin",
        "rerun: nox -s equivalence",
    ):
        assert part in comparison.told(finding)


def test_a_prefix_of_a_table_is_the_table_of_a_prefix(sound: Arms) -> None:
    whole = table(sound.pairs(), 16)
    part = whole.first(100)
    assert (len(part.request), part.names) == (100, whole.names[:3])
    assert judge(whole.first(0), Yardstick("A/A", 4.0, 0.03)).statistics == ()
    np.testing.assert_array_equal(part.specialized, whole.specialized[:100])


def test_too_few_requests_for_an_interval_are_inconclusive(sound: Arms) -> None:
    comparison = compare(arms(Plan(requests=2, scenes=("alone", "eight"))))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert any("too few for an interval" in finding.text for finding in comparison.findings)


def test_a_scene_that_was_batched_alike_twice_is_no_alarm() -> None:
    """Its default answers are the same to the bit; the specialized path's noise there is that of the other scenes."""
    noisy = arms(SMALL, noise=0.04, multiple=2.5)
    default = {t.key: t for t in noisy.default.transcripts}
    again = tuple(default[t.key] if t.scene == "alone" else t for t in noisy.again.transcripts)
    comparison = compare(replace(noisy, again=replace(noisy.again, transcripts=again)))
    assert comparison.verdict is not Verdict.FAIL
    assert comparison.forced is not None
    by_group = {s.group: s for s in comparison.forced.statistics if s.name == "size"}
    assert by_group["scene alone"].noise == 0
    assert by_group["scene alone"].allowed == by_group["all"].allowed


def uneven(seed: int, outlier: float = 1.0) -> Table:
    """80 requests without A/A noise; the specialized path has 0.03 nats times exp(0.45 normal), times ``outlier`` in one."""
    draws, tokens = np.random.default_rng(seed), 36
    sizes = 0.03 * np.exp(0.45 * draws.normal(size=80))
    sizes[0] *= outlier
    request = np.repeat(np.arange(80), tokens)
    specialized = np.zeros((len(request), 5))
    specialized[:, 0] = draws.normal(size=len(request)) * sizes[request]
    ones, position = np.ones(len(request)), np.tile(np.arange(tokens), 80)
    return Table(
        names=tuple(("eight", f"{n}") for n in range(80)),
        request=request,
        position=position,
        context=position + 40,
        specialized=specialized,
        noise=np.zeros_like(specialized),
        move=ones,
        spread=ones,
        gap=ones,
        block=16,
    )


def test_of_a_request_that_is_cut_off_the_rms_is_not_judged() -> None:
    """And where no request is whole yet, there is none to judge."""
    whole = uneven(0, outlier=20)
    assert {r.name for r in judge(whole.first(30), QUIET, whole).requests} == {"largest"}
    assert {r.name for r in judge(whole.first(36), QUIET, whole).requests} == {"largest", "request size"}


@pytest.mark.parametrize("seed", range(20))
def test_where_the_default_path_repeats_itself_requests_may_differ_in_noise_among_themselves(seed: int) -> None:
    assert judge(uneven(seed), QUIET).requests == ()
    assert {r.request for r in judge(uneven(seed, outlier=20), QUIET).requests} == {"0"}


@pytest.mark.parametrize("seed", [2, 3])
def test_one_request_is_an_outlier_among_its_like(seed: int) -> None:
    """Less far off than ``MULTIPLE`` allows any: the scene's other requests say that its noise is not as large."""
    comparison = compare(arms(Plan(seed), fault=FAULTS["padded_row_written"]))
    assert comparison.forced is not None
    assert {(r.scene, r.request) for r in comparison.forced.requests} == {("eight", "forced-3")}
