"""Races: the protocols' models, vLLM's kernels on a GPU, compute-sanitizer's sessions."""

from pathlib import Path

from validate.races import record as models
from validate.races import session as searching
from validate.races.gpu import judging
from validate.races.gpu import record as gpu
from validate.races.gpu.session import checks
from validate.signoff.evidence import Evidence, Matrix, Source, Table
from validate.signoff.reading import lacking
from validate.signoff.reading.common import kind, made
from validate.verdict import Verdict

MODELS, KERNELS, SANITIZER = "protocol models", "kernels under adversarial timing", "compute-sanitizer"


def read(folder: Path, source: Source) -> Evidence:
    """A search of the sound models. InputError if it is damaged."""
    manifest, found = models.read(folder)
    states = sum(one.states for one in found if one.search.how == "every interleaving")
    protocols = len({one.search.protocol for one in found})
    return Evidence(
        layer="races",
        part=MODELS,
        source=source,
        runs_on="models",
        ran="models of the protocols, read from vLLM's kernels; no kernel",
        verdict=manifest.verdict or Verdict.INVALID,
        headline=f"{len(found)} of {manifest.planned} searches, {states:,} states of every interleaving; protocols: {protocols}",
        checks=tuple(searching.checks(manifest, found)),
        planted=manifest.asked.plant,
        lacks=tuple(lacking.of_races(manifest, found)),
        **made(manifest),
        vllm=f"{manifest.vllm or 'unknown'}, not run",
    )


def matrix(folder: Path, source: Source) -> Matrix:
    """A search of the planted faults."""
    _, found = models.read(folder)
    faults = dict.fromkeys(f"{one.search.protocol}.{one.search.fault}" for one in found if one.search.fault)
    by = {f"{one.search.protocol}.{one.search.fault}": one for one in found if one.search.fault and one.kind}
    alarms = sum(one.search.fault is None and one.kind is not None for one in found)
    rows = tuple((name, str(by[name].kind) if name in by else "", by[name].text if name in by else "") for name in faults)
    return Matrix(layer="races", part=MODELS, source=source, found=len(by), planted=len(faults), false_alarms=alarms, rows=rows)


def read_gpu(folder: Path, source: Source) -> Evidence:
    """A run of the trials, or of compute-sanitizer's sessions."""
    manifest, tried, sanitized = gpu.read(folder)
    judged = [one for one in tried if judging.verdict(one) is not None]
    if manifest.asked.sanitize:
        headline = f"{len(sanitized)} of {manifest.planned} sessions"
    else:
        right, left = sum(one.sound is not None and not one.sound.wrong for one in judged), len(tried) - len(judged)
        headline = f"{right} of {len(judged)} trials right where the kernel without the fix is wrong; {left} not judged"
    rows = tuple(
        (one.trial.name, *map(judging.outcome, (one.sound, one.control))) for one in sorted(tried, key=lambda one: one.trial.name)
    )
    tables = (Table(title="Trials", header=("trial", "the kernel", "without the fix"), rows=rows),)
    return Evidence(
        layer="races",
        part=SANITIZER if manifest.asked.sanitize else KERNELS,
        source=source,
        runs_on=kind((manifest.gpu,)),
        ran=f"vLLM's own kernels on {manifest.gpu}",
        verdict=manifest.verdict or Verdict.INVALID,
        headline=headline,
        checks=tuple(checks(tried, sanitized)),
        **made(manifest),
        vllm=manifest.vllm.version,
        tables=tables if rows else (),
    )
