"""Canaries: short questions asked of a fresh engine, and again when long outputs have run in it.

What a long output leaves behind (a slot that is not reset, a page with a NaN) shows in whoever gets its slots and pages next;
in vLLM issue 51039 every later request was corrupt for 19 hours. Where the engine claims that equal requests in equal batches
are decoded bit for bit alike, tokens and logprobs must be equal; where it does not, no right answer may have become a wrong
one. The A/A arm is left out: its canaries have neighbours, which are others the second time.
"""

from collections.abc import Iterator

from validate.equivalence.arm import LongOutputs
from validate.equivalence.compare.finding import Check, Finding, check
from validate.long_output.signals.control import parsed
from validate.records.arm import Transcript
from validate.records.arm_folder import Arm
from validate.verdict import Verdict


def canaries(arms: tuple[Arm, ...], asked: LongOutputs) -> Check:
    """Of the arms whose canaries run alone; the default path's own must sing, or it is INVALID: they prove nothing then."""
    found: list[Finding] = []
    told = []
    for arm in arms:
        own = [t for t in arm.transcripts if t.error is None]
        fresh = {t.request: t for t in own if t.scene == asked.fresh}
        after = {t.request: t for t in own if t.scene == asked.after}
        verdict = Verdict.FAIL if arm.manifest.name == "specialized" else Verdict.INVALID
        for name in sorted(fresh.keys() & after.keys()):
            found += _one(arm.manifest.name, verdict, fresh[name], after[name], asked.reproducible)
        if not fresh or fresh.keys() != after.keys():
            text = f"{arm.manifest.name}: {len(fresh)} canaries before the long outputs, {len(after)} behind them"
            found.append(Finding(verdict=Verdict.INVALID, text=text))
        if fresh and arm.manifest.name == "default" and not any(map(right, fresh.values())):
            text = f"{arm.manifest.name}: no canary is answered rightly in a fresh engine: what becomes of them shows little"
            found.append(Finding(verdict=Verdict.INVALID, text=text))
        count = [sum(map(right, of.values())) for of in (after, fresh)]
        told.append(f"{arm.manifest.name} {count[0]} of {len(after)} right, {count[1]} fresh")
    how = "bit for bit" if asked.reproducible else "by their answers"
    return check("canaries", f"compared {how}; {'; '.join(told)}", found)


def right(t: Transcript) -> bool:
    """Whether the content holds what is expected."""
    return t.expects is not None and t.expects in parsed("".join(t.texts)).content


def _one(arm: str, verdict: Verdict, fresh: Transcript, after: Transcript, reproducible: bool) -> Iterator[Finding]:
    position = next((n for n, (a, b) in enumerate(zip(fresh.tokens, after.tokens, strict=False)) if a != b), None)
    if position is None and len(fresh.tokens) != len(after.tokens):
        position = min(len(fresh.tokens), len(after.tokens))
    if reproducible:
        if position is not None:
            text = f"{arm}: another answer than in a fresh engine"
            yield Finding(verdict=verdict, text=text, scene=after.scene, request=after.request, position=position)
            return
        # As text: a NaN is equal to itself then.
        moved = next((n for n, (a, b) in enumerate(zip(fresh.logprobs, after.logprobs, strict=True)) if repr(a) != repr(b)), None)
        if moved is not None:
            text = f"{arm}: logprob {after.logprobs[moved]:.6g}, {fresh.logprobs[moved]:.6g} in a fresh engine"
            yield Finding(verdict=verdict, text=text, scene=after.scene, request=after.request, position=moved)
    elif right(fresh) and not right(after):
        text = f"{arm}: a wrong answer, and a right one in a fresh engine"
        yield Finding(verdict=verdict, text=text, scene=after.scene, request=after.request, position=position)
