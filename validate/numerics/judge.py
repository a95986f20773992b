"""One case from inputs to verdicts: runs the subjects, evaluates the references, applies the rules."""

import importlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType

from torch import Tensor

from validate.errors import InputError
from validate.model.call import Call, Expected, ExpectedChoice
from validate.numerics import acceptance, comparison, measure
from validate.numerics.acceptance import Ensemble, Measurement
from validate.numerics.case import Case
from validate.paths import Broken, Lost, Subject
from validate.profiles import Profile
from validate.reference.points import Member, Point, Points

# The whole step first, since it takes longest; then as a layer runs them.
STAGES = (
    "decode_step",
    "embedding",
    "attn_res",
    "input_projection",
    "kda",
    "recover_ssm",
    "mla",
    "o_proj",
    "router",
    "latent_down",
    "experts",
    "shared_experts",
    "moe_tail",
    "dense_mlp",
    "final_norm",
    "logits",
    "draft_context",
)


@dataclass(frozen=True)
class Judgement:
    """What one subject measured on one case. ``missing`` says why it did not run; then there are no measurements.

    ``note``: what of the stage is not the subject's own.
    """

    subject: str
    measurements: tuple[Measurement, ...]
    seconds: float  # of one call of the subject
    missing: str | None = None
    note: str | None = None


def cases(profile: Profile, stages: Iterable[str] | None = None) -> list[Case]:
    """Every case of the profile, or of these stages, in the order of the stages. InputError for an unknown stage."""
    chosen = stages or profile.stages or STAGES
    unknown = [stage for stage in chosen if stage not in STAGES]
    if unknown:
        raise InputError(f"unknown stage '{unknown[0]}' in profile {profile.name}: the stages are {', '.join(STAGES)}")
    every = [case for stage in chosen for case in _stage(stage).cases(profile)]
    return every if profile.runs_on == "emulated" else [case for case in every if runs_anywhere(case)]


def runs_anywhere(case: Case) -> bool:
    """Whether kernels of the specialized path could be given the case.

    A kernel prepared for fewer rows than a step has is never given it: only the emulation lends such a regime its arithmetic,
    to compare regimes on equal inputs. And the path has an FP8 cache only.
    """
    return case.sizes.get("regime", case.sizes["batch"]) >= case.sizes["batch"] and (case.stage, case.inputs) != ("mla", "bf16")


def build(case: Case) -> Call:
    """The inputs of a case, the same on every machine."""
    return _stage(case.stage).build(case)


def judge(case: Case, subjects: Iterable[Subject]) -> list[Judgement]:
    """Builds the case's inputs and runs every subject on them."""
    return judge_call(build(case), subjects)


def judge_call(call: Call, subjects: Iterable[Subject]) -> list[Judgement]:
    """Runs every subject on the call. The default path goes first: the others are compared with it.

    After a subject that loses the GPU only the emulation is judged: no kernel can be run in this process any more.
    """
    references = _References(call)
    ordered = sorted(subjects, key=lambda subject: subject.path != "default")
    defaults: dict[str, tuple[str, Call]] = {}  # by kind (emulated, vllm): a subject is compared with its like if it can be
    judgements = []
    kernels = any(_kind(subject) == "vllm" for subject in ordered)
    lost = False
    for subject in ordered:
        if lost and _kind(subject) == "vllm":
            continue
        reason = subject.missing(call)
        if reason is not None:
            judgements.append(Judgement(subject.name, (), 0.0, reason))
            continue
        first, second = call.fresh(), call.fresh()
        versions = _versions(call)
        start = time.perf_counter()
        try:
            subject.run(first)
            seconds = time.perf_counter() - start
            subject.again(second)
        except Broken as broken:
            found = Measurement(broken.tensor, broken.check, broken.count, 0, False, str(broken))
            seconds = time.perf_counter() - start
            judgements.append(Judgement(subject.name, (found,), seconds, note=subject.note(call)))
            lost = lost or isinstance(broken, Lost)
            continue
        kind = _kind(subject)
        other = defaults.get(kind) or next(iter(defaults.values()), None)
        if subject.path == "default" and kind not in defaults:
            defaults[kind], other = (subject.name, first), None
        # The common reference serves the comparison, and the errors of kernels beside those of their emulation.
        common = references.of("common", first) if other is not None or kernels else {}
        measurements = _measure(call, first, second, subject, references, other, common)
        measurements += acceptance.inputs_kept(versions, _versions(call))
        judgements.append(Judgement(subject.name, tuple(measurements), seconds, note=subject.note(call)))
    return judgements


class _References:
    """The ensembles of one call, computed when asked for; products of its inputs are formed once."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.module = importlib.import_module(f"validate.reference.{call.stage}")
        self._points = [value for value in vars(self.module).values() if isinstance(value, Point)]
        self._products: dict = {}
        self._known: dict[tuple, dict[str, Ensemble | ExpectedChoice]] = {}

    def of(self, path: str, after: Call) -> dict[str, Ensemble | ExpectedChoice]:
        """The expected tensors of a path. Where a choice is part of the stage, they follow the subject's choice."""
        declared = tuple(point.rounds(path) for point in self._points)  # paths that round alike share a reference
        if declared in self._known:
            return self._known[declared]
        members = []
        for member in Member:
            points = Points(path, member, self._products, given=after.outputs)
            members.append(self.module.reference(self.call, points))
        found: dict[str, Ensemble | ExpectedChoice] = {}
        for name, nominal in members[0].items():
            found[name] = (
                nominal if isinstance(nominal, ExpectedChoice) else acceptance.ensemble([member[name] for member in members])
            )
        follows = getattr(self.module, "FOLLOWS_SUBJECT", False)
        if not follows and not any(isinstance(entry, ExpectedChoice) for entry in found.values()):
            self._known[declared] = found
        return found


def _measure(
    before: Call,
    first: Call,
    second: Call,
    subject: Subject,
    references: _References,
    default: tuple[str, Call] | None,
    common: Mapping[str, Ensemble | ExpectedChoice],
) -> list[Measurement]:
    own = references.of(subject.path, first)
    shapes: dict[str, Expected | ExpectedChoice] = {
        name: entry if isinstance(entry, ExpectedChoice) else entry.expected for name, entry in own.items()
    }
    found = acceptance.complete(before, first, shapes)
    found += [acceptance.equal(name, first.written(name), second.written(name)) for name in shapes]
    for name, entry in own.items():
        expected = shapes[name]
        value = first.written(name)
        if expected.replicated:
            # Where one process plays all ranks and a part is emulated, their agreement is the emulation's.
            if subject.note(before) is None or subject.ranks(before) > 1:
                found.append(acceptance.ranks_agree(name, value))
            value = value[0]
        if isinstance(entry, ExpectedChoice):
            found.append(acceptance.choice(name, value.flatten(0, -2), entry))
            continue
        where = entry.expected.where or (slice(None),)
        value = value[where]
        if value.numel() == 0:
            continue
        if entry.expected.exact:
            found.append(acceptance.exact(name, value, entry.expected.value))
            continue
        rounding = acceptance.rounding(name, value, entry)
        shared = common.get(name)
        if isinstance(shared, Ensemble):
            rounding = replace(rounding, error=measure.relative(value, shared.expected.value))
        found.append(rounding)
        if default is not None and isinstance(shared, Ensemble):
            other_name, other_call = default
            other = other_call.written(name)
            other = (other[0] if expected.replicated else other)[where]
            found += comparison.no_worse(name, value, shared, entry.expected.roundings, other, other_name)
    return found


def _kind(subject: Subject) -> str:
    """Whose like a subject is: vLLM's kernels, or the emulation with its planted faults."""
    return "vllm" if subject.name.startswith("vllm-") else "emulated"


def _stage(name: str) -> ModuleType:
    return importlib.import_module(f"validate.numerics.{name}")


def _versions(call: Call) -> dict[str, int]:
    """How often torch has written each input in place."""
    return {name: value._version for name, value in call.inputs.items() if isinstance(value, Tensor)}
