"""The rules on made-up samples."""

import numpy as np
import pytest
import torch

from validate.long_output.drift import acceptance
from validate.long_output.drift.track import COLUMNS, Track, sampled
from validate.verdict import Verdict

HEADS = 4
MEMORY = [2.0, 20.0, 200.0, 1500.0]


def track(steps: int = 6000, rise: float = 0.0, seed: int = 0, **at: tuple[int, int, float]) -> Track:
    """Errors around 1e-7 that rise like steps to the ``rise``; ``at``: by column, a step from which a head has another value."""
    generator = np.random.default_rng(seed)
    made = Track()
    for step in filter(sampled, range(1, steps + 1)):
        row = torch.full((len(COLUMNS), HEADS), 2e-7, dtype=torch.float64)
        row[:2] = torch.from_numpy(1e-7 * np.exp(0.1 * generator.standard_normal((2, HEADS))) * (step / steps) ** rise)
        for column, (since, head, value) in at.items():
            if step >= since:
                row[COLUMNS.index(column), head] = value
        made.add(step, row)
    return made


def checks(made: Track, strays: int = 0) -> dict[str, acceptance.Check]:
    return {check.name: check for check in acceptance.checks(made, acceptance.heads(made, MEMORY), strays, default=False)}


def test_sound_samples_pass() -> None:
    found = checks(track())
    assert {check.verdict for check in found.values()} == {Verdict.PASS}
    assert acceptance.first_out(track()) is None


@pytest.mark.parametrize(("column", "check"), [("state_bound", "bounded"), ("output_beside", "no_worse")])
def test_a_head_beyond_its_limit_is_named_with_its_first_step(column: str, check: str) -> None:
    made = track(**{column: (1000, 2, 1e-9)})
    (finding,) = checks(made)[check].findings
    assert finding.position == 1008  # the sample after it
    assert "head 2 (memory 200 steps)" in finding.text
    assert acceptance.first_out(made) == (check, 1008)
    assert checks(made)[check].verdict is Verdict.FAIL


def test_no_number_fails() -> None:
    made = track(state=(500, 1, float("nan")))
    assert acceptance.first_out(made) == ("finite", 512)
    found = checks(made)
    assert found["finite"].findings[0].position == 512
    assert found["finite"].verdict is Verdict.FAIL


def test_growth_is_found_and_its_exponent_said() -> None:
    made = track(rise=0.5)
    found = checks(made)["growth"]
    assert found.verdict is Verdict.FAIL
    assert "head 0" in found.findings[0].text
    assert acceptance.heads(made, MEMORY)[0].exponent == pytest.approx(0.5, abs=0.1)


def test_too_few_steps_decide_nothing() -> None:
    found = checks(track(steps=1000))["growth"]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "head 3 (memory 1.5e+03 steps)" in found.findings[0].text
    assert found.findings[0].text.endswith("--steps 4,500 or so would do")


def test_a_slow_head_is_named_as_not_tested() -> None:
    assert checks(track())["growth"].detail.endswith("too slow to be tested: 3")


def test_strays_fail() -> None:
    assert checks(track(), strays=1)["inputs"].verdict is Verdict.FAIL


def test_alarms_are_as_rare_as_declared() -> None:
    """Of 400 sound tracks at most one raises an alarm: with a chance of 1e-3 each, two or more have one of 6 %."""
    few = [track(steps=1000, seed=seed) for seed in range(400)]
    alarms = [n for n, made in enumerate(few) if checks(made)["growth"].verdict is Verdict.FAIL]
    assert len(alarms) <= 2
