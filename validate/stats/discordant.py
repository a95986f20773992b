"""Pairs in which one arm is right and the other wrong: whether the default arm wins more of them than chance would have it."""

from scipy import stats


def mcnemar(default_only: int, specialized_only: int) -> float:
    """The exact one-sided p-value of "the default arm wins no more than half of the discordant pairs" (McNemar's test)."""
    pairs = default_only + specialized_only
    return float(stats.binomtest(default_only, pairs, 0.5, alternative="greater").pvalue) if pairs else 1.0
