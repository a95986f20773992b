"""What one position says, against full distributions."""

import math

import numpy as np
import pytest

from tests.equivalence.toy import Plan, manifest
from validate.equivalence.compare.allowance import LEAST, floor
from validate.equivalence.compare.estimates import apart, known, scale
from validate.records.arm import Top

BEST = 8


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def best(logprobs: np.ndarray) -> Top:
    order = np.argsort(-logprobs)[:BEST]
    return Top(ids=tuple(map(int, order)), logprobs=tuple(map(float, logprobs[order])))


@pytest.mark.parametrize("noise", [1e-3, 0.02, 0.5])
def test_the_divergence_is_never_above_the_true_one_and_lacks_what_it_says(noise: float) -> None:
    generator = np.random.default_rng(0)
    lacking, said = 0.0, 0.0
    for _ in range(400):
        logits = generator.normal(size=200) * generator.uniform(0.2, 4)
        p, q = log_softmax(logits), log_softmax(logits + noise * generator.normal(size=200))
        token = int(generator.integers(200))
        found = apart(token, known(token, p[token], best(p)), known(token, q[token], best(q)))
        true = float((np.exp(p) * (p - q)).sum())
        assert found.kl <= true + 1e-12
        assert found.logprob == q[token] - p[token]
        lacking, said = lacking + true - found.kl, said + found.lacking
    assert lacking == pytest.approx(said, rel=0.2)


def test_divergences_of_equal_distributions_are_nothing() -> None:
    p = log_softmax(np.random.default_rng(1).normal(size=50))
    found = apart(3, known(3, p[3], best(p)), known(3, p[3], best(p)))
    assert (found.logprob, found.best, found.kl, found.lacking, found.rank) == (0, 0, 0, 0, False)


def test_differences_over_scale_are_the_noise_of_a_logit() -> None:
    generator = np.random.default_rng(2)
    ratios = []
    for _ in range(4000):
        logits = generator.normal(size=200) * generator.uniform(0.5, 4)
        p, q = log_softmax(logits), log_softmax(logits + 0.02 * generator.normal(size=200))
        token = int(generator.choice(200, p=np.exp(p)))
        of = scale(token, known(token, p[token], best(p)))
        if of.move > LEAST:
            ratios.append((q[token] - p[token]) / of.move)
    assert 0.016 < np.sqrt(np.mean(np.square(ratios))) <= 0.0205  # the tail's rest² is the most that it may add


def test_a_token_that_is_certain_does_not_blow_up_its_difference() -> None:
    assert scale(0, {0: -1e-7, 1: -17.0}).move == LEAST


def test_ranks() -> None:
    first, second = {0: -1.0, 1: -1.1, 2: -3.0}, {0: -1.1, 1: -1.0, 2: -3.0}
    assert apart(0, first, second).rank
    assert not apart(2, first, second).rank
    assert apart(0, first, second).best == pytest.approx(-0.1)


def test_the_floor_is_that_of_the_dtype() -> None:
    bf16, fp32 = (floor(manifest("a", "auto", Plan(), dtype)) for dtype in ("bfloat16", "float32"))
    # 8 sublayers round the stream; within them 4 values each, in a stream of 1, 2, 3 or 4 outputs.
    roundings = 8 + 8 * 4 * (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    assert bf16 == pytest.approx(math.sqrt(5) * 0.42 * 2**-8 * math.sqrt(roundings) * 2)
    assert fp32 == pytest.approx(1e-4, rel=0.1)


def test_rounding_to_bf16_costs_what_the_floor_says() -> None:
    """0.42 u: the relative rms error of rounding to nearest, significands distributed as 1 / m."""
    values = np.exp(np.random.default_rng(3).uniform(0, 30 * math.log(2), size=200_000)).astype(np.float32)
    rounded = ((values.view(np.uint32).astype(np.uint64) + 0x8000) >> 16 << 16).astype(np.uint32).view(np.float32)
    assert np.sqrt(np.mean(((rounded - values) / values) ** 2)) == pytest.approx(0.4247 * 2**-8, rel=0.01)
