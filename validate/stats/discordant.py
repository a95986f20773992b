"""Pairs in which one arm is right and the other wrong: whether the default arm wins more of them than chance would have it."""

import math

from scipy import special, stats

STOP = 20.0  # Ville's inequality: under chance, an e-value ever reaches this with probability 1 / 20 at most


def mcnemar(default_only: int, specialized_only: int) -> float:
    """The exact one-sided p-value of "the default arm wins no more than half of the discordant pairs" (McNemar's test)."""
    pairs = default_only + specialized_only
    return float(stats.binomtest(default_only, pairs, 0.5, alternative="greater").pvalue) if pairs else 1.0


def e_value(default_only: int, specialized_only: int) -> float:
    """Evidence against chance that may be looked at after every pair: the run may stop for failure at :data:`STOP`.

    A likelihood ratio: the probability that the default arm wins a discordant pair, uniform from 1/2 to 1, against 1/2. Valid at
    any look, also across repeats, where both arms share each item's distribution (P. Grünwald, R. de Heide and W. Koolen, "Safe
    testing", Journal of the Royal Statistical Society B 86 (2024)).
    """
    b, c = default_only + 1, specialized_only + 1
    upper = special.betaincc(b, c, 0.5)
    if upper == 0.0:
        return 0.0
    log = (b + c - 1) * math.log(2) + float(special.betaln(b, c)) + math.log(upper)
    return math.exp(min(log, 700.0))
