"""vLLM's own decode steps, launched over meta tensors: is every launch what its kernel was compiled for?

``python -m validate.kernels.steps PROFILE FOLDER`` prints what differs, then how many launches there were; exit code 1 if any
differ. ``SpecializedDecode.run`` (vLLM 0.33.0, specialized_decode/runtime/decode.py) goes through all 93 layers, at every
batch that a deployment prepares, in plain decode and in verify steps.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate import profiles
from validate.kernels import driverless
from validate.kernels.deployment import PAGE, Deployment, backbone, config, deployments
from validate.kernels.launches import Launch, Watch
from validate.paths.vllm.source import opened

ARCH = "sm_103a"  # launches do not depend on it
PAGES = 4 * PAGE  # of a request's block table: any number


def steps(watch: Watch, deployment: Deployment) -> Iterator[tuple[str, list[Launch]]]:
    """Each decode step of a deployment by its name, with its launches."""
    driverless.deploy(deployment)
    driverless.forget()
    model = backbone(deployment)
    decode: Any = watch.decode.SpecializedDecode(model, config(deployment))
    decode.prepare_kv()
    for q in decode.queries:
        for rows in (rows for rows in decode.batches if rows % q == 0):
            step = watch.decode.Step(q, [_metadata(rows, q)] * len(model.layers), _slots(model, rows))
            launches = watch.watched(partial(decode.run, step, _empty(torch.int32, rows), None))
            yield f"{deployment.name}, {rows} rows, {q} a request", launches


def _metadata(rows: int, q: int) -> SimpleNamespace:
    """What ``Attention.run`` of runtime/providers.py reads of a layer's attention metadata."""
    requests = rows // q
    lengths = _empty(torch.int32, requests)
    return SimpleNamespace(
        non_spec_state_indices_tensor=_empty(torch.int32, requests),
        spec_state_indices_tensor=_empty(torch.int32, requests, q),
        num_accepted_tokens=_empty(torch.int32, requests),
        decode=SimpleNamespace(block_table=_empty(torch.int32, requests, PAGES), seq_lens=lengths, dcp_tot_seq_lens=lengths),
    )


def _slots(model: Any, rows: int) -> dict[str, Tensor]:
    names = (getattr(layer.self_attn, "layer_name", None) for layer in model.layers)
    return {name: _empty(torch.int64, rows) for name in names if name is not None}


def _empty(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _main(profile: str, folder: str) -> None:
    watch = Watch(opened(Path(folder)), ARCH)
    kernels: Counter[str] = Counter()
    count = differ = 0
    for deployment in deployments(profiles.load(profile)):
        for step, launches in steps(watch, deployment):
            count += 1
            kernels.update(launch.kernel for launch in launches)
            for difference in dict.fromkeys(f"{one.kernel}: {why}" for one in launches for why in one.differences):
                differ += 1
                print(f"{step}: {difference}")
    print(f"{sum(kernels.values())} launches of {len(kernels)} kernels in {count} decode steps, {differ} differences")
    sys.exit(bool(differ))


if __name__ == "__main__":
    _main(*sys.argv[1:])
