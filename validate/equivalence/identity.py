"""Which engine answers: what its workers say of themselves. Of a server the recorder's own machine says nothing."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validate.errors import InputError
from validate.records import provenance
from validate.records.model import Machine
from validate.records.secrets import told

WHOLE_FILE = 2**26  # bytes; of larger files the first and last MiB are enough to tell one checkpoint from another
# Variables that vLLM 0.33.0 sets itself, or that say where a process runs and for whom.
OWN = (
    "VLLM_DIST_IDENT",
    "VLLM_DP_",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
    "VLLM_HOST_IP",
    "VLLM_INSTANCE_ID",
    "VLLM_LOOPBACK_IP",
    "VLLM_SERVER_DEV_MODE",
    "VLLM_USE_BREAKABLE_CUDAGRAPH",
    "VLLM_WORKER_MULTIPROC_METHOD",
)
# Where vLLM's configuration object holds an engine argument: names of its parts, of vLLM 0.33.0's config/*.py.
PLACES: dict[str, str] = {
    "dtype": "model_config.dtype",
    "enable_prefix_caching": "cache_config.enable_prefix_caching",
    "enable_trace_replay": "model_config.enable_trace_replay",
    "enforce_eager": "model_config.enforce_eager",
    "kv_cache_dtype": "cache_config.cache_dtype",
    "mamba_ssm_cache_dtype": "cache_config.mamba_ssm_cache_dtype",
    "max_model_len": "model_config.max_model_len",
    "max_num_batched_tokens": "scheduler_config.max_num_batched_tokens",
    "max_num_seqs": "scheduler_config.max_num_seqs",
    "seed": "model_config.seed",
    "decode_context_parallel_size": "parallel_config.decode_context_parallel_size",
    "tensor_parallel_size": "parallel_config.tensor_parallel_size",
}
SPECULATION = ("method", "num_speculative_tokens")
BACKEND = "decode_backend"


@dataclass(frozen=True)
class Identity:
    """``environment``: the VLLM_* variables; ``arguments``: the engine's, as vLLM settled them; ``weights``: a digest."""

    machine: Machine
    environment: dict[str, str]
    arguments: Mapping[str, Any]
    weights: str


def of_worker(worker: Any) -> dict[str, Any]:
    """What one of vLLM's workers says. The first of a node reads the weights, which its node has alone."""
    config = worker.vllm_config
    environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith("VLLM_")}
    return {
        # All cores of the node, not those that this worker is bound to.
        "machine": provenance.machine().model_copy(update={"cores": os.cpu_count() or 1}).model_dump(mode="json"),
        "environment": told({name: value for name, value in environment.items() if not name.startswith(OWN)}),
        "arguments": arguments(config),
        "weights": model_digest(_folder(config.model_config)) if worker.local_rank == 0 else None,
    }


def agreed(answers: Sequence[Mapping[str, Any]], where: str) -> Identity:
    """What all workers of an engine say. InputError if they are of several images, GPUs, weights or arguments."""
    first = answers[0]
    machines = [Machine.model_validate(one["machine"]) for one in answers]
    said: dict[str, Callable[[int], Any]] = {
        "images": lambda n: machines[n].image,
        "GPUs": lambda n: machines[n].gpus,
        "environments": lambda n: answers[n]["environment"],
        "arguments": lambda n: answers[n]["arguments"],
        "weights": lambda n: answers[n]["weights"] or first["weights"],
    }
    for what, of in said.items():
        if other := next((n for n in range(len(answers)) if of(n) != of(0)), None):
            raise InputError(f"{where}: its workers have different {what}: {of(0)} and, worker {other}, {of(other)}")
    return Identity(machines[0], dict(first["environment"]), dict(first["arguments"]), str(first["weights"]))


def served(found: Mapping[str, Identity], wanted: Mapping[str, Any], environment: Mapping[str, str]) -> Identity:
    """What the servers of an arm say, by their addresses. InputError if one is not what was asked for, or not as the others."""
    (first_url, first), *others = found.items()
    for url, one in found.items():
        if lines := unlike(one, wanted, environment):
            raise InputError(f"{url} is not the arm's server: {'; '.join(lines)}; start it as --commands prints")
    for url, one in others:
        for what in ("machine.gpus", "machine.image", "weights", "arguments", "environment"):
            if (own := _at(one, what)) != (its := _at(first, what)):
                raise InputError(f"the servers of the arm differ in {what}: {first_url} has {its}, {url} has {own}")
    return first


def unlike(found: Identity, wanted: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """In what an engine is not what was asked for: engine arguments (``ArmSet.arguments``) and variables."""
    asked = {name: value for name, value in wanted.items() if name in PLACES}
    asked[BACKEND] = wanted.get("additional_config", {}).get(BACKEND, "auto")
    drafts = wanted.get("speculative_config") or {}
    asked |= {name: drafts.get(name) for name in SPECULATION}
    lines = [
        f"{name} is {found.arguments[name]}, not {value}"
        for name, value in asked.items()
        if name in found.arguments and not _alike(name, found.arguments[name], value)
    ]
    for name, value in environment.items():
        if name.startswith("VLLM_") and (there := found.environment.get(name, "not set")) != value:
            lines.append(f"{name} is {there}, not {value}")
    return lines


def arguments(config: Any) -> dict[str, Any]:
    """Of vLLM's ``VllmConfig``: the engine arguments that decide what is computed."""
    found = {name: value for name, place in PLACES.items() if (value := _at(config, place)) is not None}
    drafts = getattr(config, "speculative_config", None)
    found |= {name: getattr(drafts, name, None) for name in SPECULATION}
    found[BACKEND] = (config.additional_config or {}).get(BACKEND, "auto")
    return {name: value if isinstance(value, int | str | None) else str(value) for name, value in found.items()}


def model_digest(model: str) -> str:
    """Of a model's files, 16 hex digits: names, sizes, contents (of large files their first and last MiB). Of a name that is no
    folder here, the name. Its documentation (Markdown) is not counted: vLLM does not read it.
    """
    root = Path(model)
    if not root.is_dir():
        return f"name {model}"
    found = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".md"):
        size = path.stat().st_size
        found.update(f"{path.relative_to(root)} {size}\n".encode())
        with path.open("rb") as file:
            if size <= WHOLE_FILE:
                found.update(file.read())
            else:
                found.update(file.read(2**20))
                file.seek(-(2**20), os.SEEK_END)
                found.update(file.read())
    return found.hexdigest()[:16]


def _folder(model_config: Any) -> str:
    """Where a model of the hub lies on this node; its name where that is not known."""
    name = str(model_config.model)
    if Path(name).is_dir():
        return name
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(name, revision=model_config.revision, local_files_only=True)
    except (OSError, ValueError):  # the hub's own errors among them
        return name


def _at(config: Any, place: str) -> Any:
    for part in place.split("."):
        config = getattr(config, part, None)
    return config


def _alike(name: str, found: Any, asked: Any) -> bool:
    """A dtype of ``auto`` is left to vLLM; torch writes dtypes with its name, and fp8 is e4m3 on GPUs."""
    return (asked == "auto" and name.endswith("dtype")) or found == asked or str(found) in (f"torch.{asked}", f"{asked}_e4m3")
