"""Speculative decoding: drafts change no greedy token but in a tie, and as many are accepted on both paths."""

import math

import numpy as np

from validate.equivalence.compare.allowance import MULTIPLE
from validate.equivalence.compare.arms import Pair
from validate.equivalence.compare.comparability import differences
from validate.equivalence.compare.finding import Check, Finding, check
from validate.equivalence.compare.tokens import Divergence, Noise, counts, findings, triage
from validate.records.arm import Transcript
from validate.records.arm_folder import Arm
from validate.records.model import Record
from validate.stats.jackknife import jackknife
from validate.stats.swaps import distributions_differ
from validate.verdict import Verdict

# Two tests, each of the two at half of it.
ALPHA = 0.005
# Of drafted tokens: less is within what one request's text does, and moves the time of a step by under 1 %.
LEAST = 0.01
FEWEST = 8  # requests: with fewer, swapped pairs cannot be told apart at ALPHA / 2 (2**-8 = 0.004, one side)
# Arguments of an engine with drafts and one without. vLLM refuses the metrics without drafts, and trace replay with them.
OF_DRAFTS = ("speculative_config", "per_request_spec_decode_metrics", "enable_trace_replay")
APART = (*(f"engine.{name}" for name in OF_DRAFTS), "plan", "scenes", "decode_only", "planned", "decode_backend")


class Acceptance(Record):
    """Shares of drafted tokens that were accepted, and tokens a request's drafts gave for each drafted one, over ``requests``."""

    requests: int
    default: float
    again: float
    specialized: float
    allowed: float
    p_mean: float
    p_distribution: float


def acceptance(pairs: list[Pair]) -> tuple[Check, Acceptance | None]:
    """FAIL if the share of accepted drafts differs in its mean by more than is allowed, or in its distribution over requests.

    The mean may differ by ``MULTIPLE`` times the rms of the A/A differences of single requests, or by ``LEAST``. The
    distributions are compared by Kolmogorov's and Smirnov's distance with pairs swapped; a distance counts only if it exceeds
    the A/A arms' own.
    """
    drafted = [pair for pair in pairs if min(t.drafted for t in (pair.default, pair.again, pair.specialized)) > 0]
    if len(drafted) < FEWEST:
        detail = f"{len(drafted)} requests with drafts, {FEWEST} are needed"
        return Check(name="acceptance", verdict=Verdict.INCONCLUSIVE if drafted else None, detail=detail), None
    default, again, specialized = (
        np.array([t.accepted / t.drafted for t in side])
        for side in zip(*((pair.default, pair.again, pair.specialized) for pair in drafted), strict=True)
    )
    sums = np.stack([specialized - default, (again - default) ** 2], axis=1)
    estimate = jackknife(sums, lambda m: np.abs(m[..., 0]) - np.maximum(MULTIPLE * np.sqrt(m[..., 1]), LEAST))
    allowed = max(MULTIPLE * math.sqrt(sums[:, 1].mean()), LEAST)
    distribution = distributions_differ(default, specialized)
    figures = Acceptance(
        requests=len(drafted),
        default=float(default.mean()),
        again=float(again.mean()),
        specialized=float(specialized.mean()),
        allowed=allowed,
        p_mean=estimate.above(),
        p_distribution=distribution,
    )
    found = []
    if figures.p_mean < ALPHA / 2:
        found.append(Finding(verdict=Verdict.FAIL, text=f"accepted drafts: mean differs by more than {allowed:.3g}"))
    if distribution < ALPHA / 2 <= distributions_differ(default, again):
        found.append(
            Finding(verdict=Verdict.FAIL, text=f"accepted drafts: distributed otherwise over requests (p {distribution:.2g})")
        )
    if not found and estimate.upper(0.95) > 0:
        found.append(Finding(verdict=Verdict.INCONCLUSIVE, text=f"accepted drafts: mean not shown to be within {allowed:.3g}"))
    shares = (
        f"{figures.default:.1%} of drafts accepted by default, {figures.again:.1%} again, {figures.specialized:.1%} specialized"
    )
    return check("acceptance", f"{shares}; {len(drafted)} requests", found), figures


def without_drafts(drafted: Arm, undrafted: Arm, noise: Noise) -> tuple[Check, tuple[Divergence, ...]]:
    """Greedy answers of one path with and without drafts: the same up to ties. The arms may differ in what ``APART`` names."""
    name = "with and without drafts"
    apart = differences(drafted.manifest, undrafted.manifest, APART)
    apart = [line for line in apart if not line.startswith("engine.speculative_config.")]
    if drafted.manifest.decode_backend != undrafted.manifest.decode_backend:
        apart.append(f"decode_backend: {drafted.manifest.decode_backend} and {undrafted.manifest.decode_backend}")
    if undrafted.manifest.engine.get("speculative_config"):
        apart.append("engine.speculative_config: the arm without drafts has one")
    if apart:
        return check(name, "not compared", [Finding(verdict=Verdict.INVALID, text=text) for text in apart]), ()
    others = {t.key: t for t in undrafted.transcripts if t.error is None and t.kind == "greedy"}
    both = [(others[t.key], t) for t in drafted.transcripts if t.error is None and t.key in others and _same(others[t.key], t)]
    if not both:
        return check(name, "none", [Finding(verdict=Verdict.INVALID, text="no greedy request is in both arms")]), ()
    found = tuple(triage(first, second, noise) for first, second in both)
    return check(name, counts(found), findings(found)), found


def _same(first: Transcript, second: Transcript) -> bool:
    return first.kind == second.kind and first.prompt == second.prompt and first.seed == second.seed
