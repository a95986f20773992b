"""A kernel launched a few times, with everything there: what compute-sanitizer looks at.

``python -m validate.races.gpu.launched ORDER``, a file.
"""

import sys
from pathlib import Path

from validate.processes import end_with_parent
from validate.records.model import Record

LAUNCHES = 2  # the second finds what the first left


class Order(Record):
    """``fault``: in a copy of vLLM's files, which lies in ``copies``."""

    kernel: str
    sizes: dict[str, int]
    fault: str | None
    vllm_src: str
    copies: str


def _main(order_file: str) -> None:
    end_with_parent()  # compute-sanitizer's, which is killed at its deadline
    import torch

    from validate.paths.vllm import source
    from validate.paths.vllm.edits import copied
    from validate.races.gpu.faults import FAULTS
    from validate.races.gpu.kernels import KERNELS

    order = Order.model_validate_json(Path(order_file).read_text(encoding="utf-8"))
    root = Path(order.vllm_src)
    if order.fault is not None:
        root = copied(root, Path(order.copies), FAULTS[order.fault].change)
    bound = KERNELS[order.kernel](source.opened(root), torch.device("cuda", 0), **order.sizes)
    for launch in range(LAUNCHES):
        bound.refresh(launch)
        torch.cuda.synchronize()
        bound.launch()
        torch.cuda.synchronize()
    print("launched", flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
