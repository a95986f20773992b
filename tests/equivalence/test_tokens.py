"""The first difference of two greedy answers: a tie, drift or a defect."""

import numpy as np
import pytest

from tests.equivalence.toy import Arms
from validate.equivalence.compare.allowance import Yardstick
from validate.equivalence.compare.comparison import compare, tokens_check
from validate.equivalence.compare.swings import Swings, swings
from validate.equivalence.compare.tokens import Noise, findings, triage
from validate.records.arm import Top, Transcript
from validate.verdict import Verdict

NOTHING = Swings(np.array([]), np.array([], dtype=np.int64))


def answer(*tokens: int, margin: float = 0.1, other: int | None = None, finish: str = "length") -> Transcript:
    """Greedy; each token ``margin`` ahead of the next best, which is ``other`` or the token's successor."""
    tops = tuple(Top(ids=(t, other if other is not None else t + 1, 99), logprobs=(-0.5, -0.5 - margin, -9.0)) for t in tokens)
    return Transcript(
        scene="s", request="r", kind="greedy", prompt=(1,), tokens=tokens, logprobs=(-0.5,) * len(tokens), top=tops, finish=finish
    )


def noise(size: float, floor: float = 0.0, *, late: float = 0.0, grows: bool = False) -> Noise:
    """A/A swings of one size; the specialized path's are as large, and ``late`` from position 64."""
    positions = np.concatenate([np.arange(64), np.arange(64, 1064)])
    return Noise(
        Swings(np.full(1064, size), positions),
        Swings(np.where(positions < 64, size, late or size), positions),
        Yardstick("A/A", 4.0, floor),
        grows=grows,
    )


def test_identical() -> None:
    assert triage(answer(1, 2), answer(1, 2), noise(0.0)).triage == "identical"
    assert triage(answer(), answer(), noise(0.0)).triage == "identical"


def test_a_tie_lies_within_the_noise_in_both_arms() -> None:
    first, second = answer(1, 5, 7), answer(1, 6, 8, other=5)
    found = triage(first, second, noise(0.03))
    assert (found.triage, found.position, found.tokens) == ("tie", 1, (5, 6))
    assert found.margins == pytest.approx((0.1, 0.1))
    assert triage(first, second, noise(0.02)).triage == "defect"
    assert triage(first, answer(1, 6, other=5, margin=0.4), noise(0.03)).triage == "defect"


def test_where_the_default_path_shows_no_noise_the_dtype_sets_it() -> None:
    first, second = answer(1, 5), answer(1, 6, other=5)
    assert triage(first, second, Noise(NOTHING, NOTHING, Yardstick("A/A", 4.0, 0.03), grows=False)).triage == "tie"
    assert triage(first, second, Noise(NOTHING, NOTHING, Yardstick("A/A", 4.0, 1e-4), grows=False)).triage == "defect"


def test_a_token_that_the_other_arm_does_not_name() -> None:
    found = triage(answer(1, 5), answer(1, 50, other=5, margin=0.0), noise(9.0))
    assert (found.triage, found.margins) == ("defect", (None, 0.0))
    (finding,) = findings([found])
    assert "default token 5 (margin not among its best); specialized token 50 (margin 0)" in finding.line


@pytest.mark.parametrize("second", [answer(1, 2), answer(1, 2, 3, finish="stop")])
def test_ends_that_differ_with_no_token_that_does(second: Transcript) -> None:
    found = triage(answer(1, 2, 3), second, noise(9.0))
    assert (found.triage, found.tokens) == ("defect", None)


def test_drift_is_noise_that_grows_and_is_not_benign() -> None:
    same = tuple(range(10, 90))
    first, second = answer(*same, 5), answer(*same, 6, other=5)
    assert triage(first, second, noise(0.01, late=0.2, grows=True)).triage == "drift"
    assert triage(first, second, noise(0.01, late=0.2)).triage == "defect"
    assert triage(first, second, noise(0.01, late=0.05, grows=True)).triage == "defect"
    drift = triage(first, second, noise(0.01, late=0.2, grows=True))
    assert tokens_check((drift,), ()).verdict is Verdict.FAIL


def test_a_default_path_that_does_not_agree_with_itself_sets_no_noise() -> None:
    defect = triage(answer(1, 5), answer(1, 50), noise(0.0))
    assert tokens_check((triage(answer(1), answer(1), noise(0.0)),), (defect,)).verdict is Verdict.INVALID
    assert tokens_check((), ()).verdict is None


def test_swings_are_of_the_same_context_only() -> None:
    found = swings([(answer(1, 5, 7, 7), answer(1, 6, 8, 8, other=5)), (answer(1), answer(1, margin=0.3))])
    assert found.positions.tolist() == [1, 0]
    assert found.sizes == pytest.approx([0.2, 0.2])


def test_noise_of_positions_that_have_enough_of_it_is_their_own() -> None:
    found = Swings(np.repeat([0.1, 0.5], 300), np.repeat([3, 40], 300))
    assert (found.largest(3), found.largest(40), found.largest(5000)) == (0.1, 0.5, 0.5)


def test_ties_of_a_sound_engine_are_benign(sound: Arms) -> None:
    comparison = compare(sound)
    assert {d.triage for d in comparison.greedy} == {"identical", "tie"}
    assert comparison.verdict is Verdict.PASS
