"""What a record lacks of its part, though all that it holds may be right: a part of the cases, a suite of one's own, fewer steps.

What counts as the whole is what the suite's own files of these names say: a file of one's own may ask anything, at any margin.
"""

from collections.abc import Iterator, Sequence

from evals.comparing.comparison import Comparison as Benchmarks
from evals.data.sources import SOURCES
from validate import profiles
from validate.equivalence import arm as arm_sets
from validate.equivalence.compare.comparison import Comparison
from validate.equivalence.scenes import Facts, build
from validate.long_output.drift.command import STEPS
from validate.long_output.drift.outcome import DriftManifest, Outcome
from validate.races import searching
from validate.races.record import Asked, Explored
from validate.races.record import Manifest as Searched
from validate.records.arm import EngineManifest
from validate.records.model import Manifest

PROFILES = ("gb300-tp8", "gb300-tp16")
DEPLOYED = (*PROFILES, *(f"{name}-dspark" for name in PROFILES))  # arm sets of whole engines, and suites of benchmarks
COMPANY = tuple(f"company-{name}" for name in DEPLOYED)
LONG = tuple(f"long-{name}" for name in DEPLOYED)


def of_numerics(manifest: Manifest) -> Iterator[str]:
    """Cases that were not selected, another profile than the deployments' own."""
    if manifest.arguments.keyword is not None:
        yield f"-k {manifest.arguments.keyword}: {manifest.planned} cases of its profile"
    name = manifest.arguments.profile
    if name not in PROFILES:
        yield _named("profile", name, PROFILES)
    elif manifest.profile != profiles.load(name).model_copy(update={"seeds": manifest.profile.seeds}):
        yield f"profile {name} is another one by now"


def of_races(manifest: Searched, found: Sequence[Explored]) -> Iterator[str]:
    """Searches that were not made, fewer random schedules, models that may be of another vLLM."""
    made = [one.search for one in found]
    if lacking := [search.name for search in searching.searches(Asked()) if search not in made]:
        yield f"without {len(lacking)} searches, the first of them {lacking[0]}"
    if empty := [one.search.name for one in found if not one.states]:
        yield f"{len(empty)} searches saw no state, the first of them {empty[0]}"
    if manifest.asked.walks < Asked().walks:
        yield f"{manifest.asked.walks} random schedules of a size, not {Asked().walks}"
    if manifest.moved is None:
        yield "its models were not held against vLLM's files: --vllm-src"


def of_drift(manifest: DriftManifest, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Fewer steps, seeds or subjects."""
    steps = min((one.steps for one in outcomes), default=0)
    if steps < STEPS:
        yield f"{steps:,} steps, not {STEPS:,}"
    if bare := [one.subject for one in outcomes if not one.checks]:
        yield f"no check of {bare[0]}"
    if manifest.arguments.seeds < 1 or not manifest.subjects:
        yield "no seed or no subject"
    run = {(one.subject, one.seed) for one in outcomes}
    wanted = [(subject, seed) for subject in manifest.subjects for seed in range(manifest.arguments.seeds)]
    yield from (f"no outcome of {subject}, seed {seed}" for subject, seed in wanted if (subject, seed) not in run)


def of_engines(comparison: Comparison, wanted: Sequence[str], company: bool = False) -> Iterator[str]:
    """Another arm set than those ``wanted``, scenes that were not recorded, default arms of another time.

    ``company``: repeats in changing company are what it is for.
    """
    default, specialized = comparison.arms[0], comparison.arms[2]
    if specialized.arm_set not in wanted:
        yield _named("arm set", specialized.arm_set, wanted)
    else:
        lacking = [name for name in _scenes(specialized.arm_set) if name not in specialized.scenes]
        if lacking:
            yield f"without {len(lacking)} scenes of {specialized.arm_set}, the first of them {lacking[0]}"
    if company and not any(check.name == "company" and check.verdict is not None for check in comparison.checks):
        yield "without its check of changing company"
    yield from _of_another_time(default, specialized)
    yield from _by_other_code(comparison)


def of_benchmarks(comparison: Benchmarks) -> Iterator[str]:
    """Another suite than the deployments' own, no A/A arm, items that were not asked. Tasks are missed by name (``required``)."""
    if comparison.arms[-1].suite not in DEPLOYED:
        yield _named("suite", comparison.arms[-1].suite, DEPLOYED)
    if len(comparison.arms) < 3:
        yield "without an A/A arm: how far the default path differs from itself"
    yield from _by_other_code(comparison)
    for plan in comparison.arms[-1].tasks:
        rows = SOURCES[plan.name].rows if plan.name in SOURCES else 0
        if (there := plan.items + len(plan.left_out)) < rows:
            yield f"{plan.name}: {there} of {rows} items"


def _named(what: str, name: str, wanted: Sequence[str]) -> str:
    return f"{what} {name}, not {' or '.join(wanted)}"


def _scenes(name: str) -> list[str]:
    """Their names hang neither on prompts nor on the size of a block, which only a running engine knows."""
    arms = arm_sets.load(name)
    engine = arms.engine
    facts = Facts(16, engine["max_num_batched_tokens"], engine["max_model_len"], engine["max_num_seqs"])
    return [scene.name for scene in build(arms.scenes, facts, lambda _, length: (0,) * length)]


def _by_other_code(comparison: Comparison | Benchmarks) -> Iterator[str]:
    if (recorded := comparison.arms[-1].commit) != comparison.commit:
        yield f"recorded by commit {recorded} of the suite, and compared by {comparison.commit or 'an unknown one'}"


def _of_another_time(default: EngineManifest, specialized: EngineManifest) -> Iterator[str]:
    """Only golden records may differ in these (``comparability``)."""
    ours, theirs = ((one.commit, one.source, one.versions, one.machine.image) for one in (specialized, default))
    if ours != theirs:
        yield f"a default path of its own: {default.name} is a golden record of {default.start}"
