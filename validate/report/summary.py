"""``summary.md``: the verdict first, then what it rests on, then what was not run."""

from collections import Counter

from validate.records.model import Line, Manifest, whole_cases
from validate.report import failures, tables
from validate.report.agreement import pairs
from validate.report.agreement import render as render_pairs
from validate.verdict import Verdict

SHOWN = 20  # failing cases written out; measurements.jsonl holds them all
_KINDS = {"emulated": "emulated in torch on a CPU", "hopper": "on a Hopper GPU", "gb300": "on GB300"}

_SIGN_OFF = {
    "emulated": "An emulated run can not sign off a release: no kernel of vLLM was run on a GPU.",
    "hopper": "A Hopper run can not sign off a release: it runs what needs no tensor memory and no multicast, on one GPU.",
    "gb300": "Whole stages by vLLM's kernels: {whole} of {planned} cases. Only a run of all of them can sign off a release.",
}


def render(manifest: Manifest, lines: list[Line]) -> str:
    """The summary of a run as Markdown."""
    parts = [_head(manifest, lines), "## By stage", _stages(lines)]
    bad = failures.not_passed(lines)
    if bad:
        parts.append(f"## Not passed: {len(bad)}")
        parts += [f"```text\n{failures.describe(manifest, line)}\n```" for line in bad[:SHOWN]]
        if len(bad) > SHOWN:
            parts.append(f"{len(bad) - SHOWN} more are in measurements.jsonl.")
    notes = _notes(lines)
    if notes:
        parts += ["## Of which vLLM's kernels are a part", notes]
    agreement = pairs(lines)
    if agreement:
        key = "Relative 2-norm errors of vLLM's kernels as multiples of the emulated ones on the same inputs:\n\n"
        parts += ["## Emulation beside vLLM", key + render_pairs(agreement)]
    parts += ["## Not run", "\n".join(f"- {entry.what}: {entry.why}" for entry in manifest.not_run)]
    untold = _untold(lines)
    if untold:
        parts += ["## Could not have failed", untold]
    parts += ["## Where and by what", _provenance(manifest)]
    return "\n\n".join(parts) + "\n"


def _head(manifest: Manifest, lines: list[Line]) -> str:
    done = len({line.case for line in lines})
    verdict = manifest.verdict or Verdict.INVALID
    text = [f"# {verdict}: numerics, profile {manifest.arguments.profile}"]
    if manifest.end is None:
        text.append(f"Interrupted, or still running: {done} of {manifest.planned} cases. No verdict can rest on it.")
    if manifest.arguments.planted:
        text.append(f"The fault `{manifest.arguments.planted}` was planted: this tests the suite and says nothing of the paths.")
    judged = sum(line.judged for line in lines)
    ran = len({line.case for line in lines if line.judged})
    interpreted = "vllm-default" in manifest.subjects and manifest.runs_on == "emulated"
    also = "; vllm-default: vLLM's own Triton kernels, interpreted on a CPU" if interpreted else ""
    text.append(
        f"What ran: **{_KINDS[manifest.runs_on]}{also}**. {ran} of {manifest.planned} cases, {judged} judgements, "
        f"subjects {', '.join(manifest.subjects)}; {manifest.profile.seeds} seed(s)."
    )
    text.append(_SIGN_OFF[manifest.runs_on].format(whole=len(whole_cases(lines)), planned=manifest.planned))
    return "\n\n".join(text)


def _stages(lines: list[Line]) -> str:
    rows = tables.rows(lines)
    checks = list(dict.fromkeys(check for row in rows for check in row.largest))
    header = ["stage", "subject", "cases", "not run", "failed", "invalid", *checks]
    body = [
        [row.stage, row.subject, row.judged, row.missing, row.failed, row.invalid]
        + [tables.share(row.largest[check]) if check in row.largest else "" for check in checks]
        for row in rows
    ]
    key = "A check's column is its largest figure as a share of its bound: above 1 fails.\n\n"
    return key + tables.markdown(header, body)


def _notes(lines: list[Line]) -> str:
    counts = Counter((line.stage, line.subject, line.note) for line in lines if line.note)
    return "\n".join(f"- {stage}, {subject}, {count} cases: {note}" for (stage, subject, note), count in counts.items())


def _untold(lines: list[Line]) -> str:
    found = [
        f"- {check} of {row.subject} on {row.stage}'s {tensor}, {count} of {row.judged} cases"
        for row in tables.rows(lines)
        for (check, tensor), count in row.untold.items()
    ]
    why = "Measured, but with a bound of 1 or more, since the default path is as bad, or sums in another order are:\n\n"
    return why + "\n".join(found) if found else ""


def _provenance(manifest: Manifest) -> str:
    machine = manifest.machine
    commit = (manifest.commit or "unknown") + (" with local changes" if manifest.dirty else "")
    return "\n".join(
        [
            f"- {manifest.start} to {manifest.end or '(no end)'}"
            + (f", {manifest.seconds:.0f} s" if manifest.seconds is not None else ""),
            f"- {machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system}",
            *(f"- {gpu}" for gpu in machine.gpus),
            f"- commit {commit}, source {manifest.source}",
            f"- {', '.join(f'{name} {version}' for name, version in manifest.versions.items())}",
            *_vllm(manifest),
            f"- arguments {manifest.arguments.model_dump_json(exclude_none=True)}",
        ]
    )


def _vllm(manifest: Manifest) -> list[str]:
    if manifest.vllm is None:
        return []
    found = manifest.vllm
    return [f"- vLLM {found.version}, commit {found.commit or 'unknown'}, {len(found.files)} files (digests in manifest.json)"]
