"""The whole comparison of long outputs: all that is compared of whole engines, and what long outputs show besides."""

from collections.abc import Iterator
from typing import Literal

from validate.equivalence.arm import LongOutputs
from validate.equivalence.compare import comparison as engines
from validate.equivalence.compare.arms import Arms, Pair
from validate.equivalence.compare.finding import Check, Finding, check
from validate.long_output.comparing import canaries, growth, lengths, rates
from validate.long_output.comparing.growth import Growth
from validate.long_output.comparing.lengths import Lengths
from validate.long_output.comparing.rates import Rate
from validate.records.model import SCHEMA_VERSION, Record
from validate.verdict import Verdict, worst


class LongComparison(Record):
    """``comparison.json``. ``engines``: what is compared of any whole engines, checks included."""

    schema_version: Literal[1] = SCHEMA_VERSION
    layer: Literal["long-output"] = "long-output"
    verdict: Verdict
    exit_code: int
    engines: engines.Comparison
    checks: tuple[Check, ...]
    rates: tuple[Rate, ...] = ()
    lengths: Lengths | None = None
    growth: Growth | None = None
    tokens: int = 0

    @property
    def findings(self) -> list[Finding]:
        """All of them, FAIL first."""
        every = [finding for check in self.checks for finding in check.findings]
        return sorted(every, key=lambda finding: finding.verdict is not Verdict.FAIL)

    def told(self, finding: Finding) -> str:
        """A finding for a person; long outputs are run again as a whole, since their places in the engine depend on all."""
        arm = self.engines.arms[2]
        if self.engines.planted or arm.served:
            return finding.line
        return f"{finding.line}\n  rerun: nox -s long_output -- long-output {arm.arm_set}"


def compare(arms: Arms, asked: LongOutputs) -> LongComparison:
    """Arms that are not of one engine are not compared further."""
    whole = engines.compare(arms)
    checks = [one for one in whole.checks if one.name != "sampled"]
    if whole.checks[0].verdict is not Verdict.PASS:
        return _comparison(whole, checks)
    pairs = arms.pairs()
    outputs = [pair for pair in pairs if pair.default.scene == asked.outputs]
    if len(outputs) < 2:
        text = f"{len(outputs)} outputs of the scene {asked.outputs} in all arms, and two are wanted at least"
        return _comparison(whole, [*checks, check("signals", text, [Finding(verdict=Verdict.INVALID, text=text)])])
    measured = engines.measure(arms, pairs)
    seen, long, grown = rates.rates(outputs, asked), lengths.compare(outputs, asked.length), None
    if measured.forced.names:
        grown = growth.measure(measured.forced, measured.yardstick)
    checks += [
        check("signals", _told(seen, outputs), [finding for rate in seen for finding in rates.findings(rate)]),
        check("lengths", _lengths(long), _length_findings(long)),
        growth.judged(grown, drafts=bool(arms.default.manifest.engine.get("speculative_config"))),
        canaries.canaries((arms.default, arms.specialized), asked),
    ]
    tokens = sum(len(pair.specialized.tokens) for pair in outputs)
    return _comparison(whole, checks, rates=tuple(seen), lengths=long, growth=grown, tokens=tokens)


def _told(seen: list[Rate], outputs: list[Pair]) -> str:
    shown = [f"{r.name} {r.default}, {r.again}, {r.specialized}" for r in seen if r.default or r.again or r.specialized]
    figures = "; ".join(shown) or f"none of {len(seen)} signs in any"
    return f"{len(outputs)} outputs an arm: {figures}" + (" (default, again, specialized)" if shown else "")


def _lengths(found: Lengths) -> str:
    return (
        f"specialized / default {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}), {found.granted:.0%} granted either way; "
        f"again / default {found.ratio_again:.3f}"
    )


def _length_findings(found: Lengths) -> Iterator[Finding]:
    if found.verdict is not Verdict.PASS:
        yield Finding(verdict=found.verdict, text=f"lengths: {_lengths(found)}")


def _comparison(whole: engines.Comparison, checks: list[Check], **figures: object) -> LongComparison:
    verdict = worst(one.verdict for one in checks if one.verdict is not None)
    fields = {"verdict": verdict, "exit_code": verdict.exit_code, "engines": whole, "checks": checks} | figures
    return LongComparison.model_validate(fields)
