"""``python -m validate`` with a kernel's subject whose output projection runs over ranks: torch and gloo in the place of GPUs.

The environment names a fault and where it strikes: FAULT (lost, dies, raises, alone, apart, refuses, wrong, writes), FAULT_CASE,
and rank 3.
"""

import os
import time
from datetime import timedelta

import torch

from validate import cli
from validate.errors import InputError
from validate.model.call import Call
from validate.numerics import subjects
from validate.paths import Lost, Subject, group
from validate.paths.emulated import Emulated
from validate.paths.vllm import BY_TORCHRUN, ranks
from validate.records import provenance

RANKS = 8


class OverGloo(Emulated):
    """Each rank projects its own rows; the partials meet by gloo and are added up on every rank."""

    def missing(self, call: Call) -> str | None:
        alone = group.size() != RANKS
        return f"{BY_TORCHRUN} {RANKS} ranks" if call.stage == "o_proj" and alone else super().missing(call)

    def ranks(self, call: Call) -> int:
        return RANKS if call.stage == "o_proj" else 1

    def note(self, call: Call) -> str | None:
        return "sums by gloo" if call.stage == "o_proj" else super().note(call)

    def run(self, call: Call) -> None:
        together = group.current()
        assert together is not None
        mine = ranks.share(call, together.rank)
        struck = os.environ.get("FAULT_CASE") == f"write{call.shape['write']}"
        fault = os.environ.get("FAULT") if struck and together.rank == 3 else None
        if fault == "apart":
            raise ValueError("out of memory")
        if struck and os.environ.get("FAULT") == "apart":
            torch.distributed.barrier()  # as vLLM's mailboxes meet while they are prepared: for ever, as far as this goes

        def strike() -> None:
            if fault == "lost":
                raise Lost(7, "did not end within 20 s")
            if fault == "dies":
                os._exit(9)
            if os.environ.get("FAULT") == "dies" and os.environ["GROUP_RANK"] != "0":
                time.sleep(10)  # as in a kernel that polls: this node's processes go on until they are stopped
            if fault == "raises":
                raise ValueError("no such kernel")

        together.together(strike)
        if fault == "alone":  # between two exchanges
            raise ValueError("out of memory")
        if fault == "writes":
            mine.inputs["local"].neg_().neg_()
        batch = call.shape["batch"]
        partial = (mine.inputs["local"].float() @ mine.inputs["weight"].float().T).bfloat16()[:batch]
        total = torch.stack(together.gather(partial)).float().sum(0).bfloat16()
        mine.outputs["delta"][0] = total + 1 if fault == "wrong" else total
        old = 0 if call.shape["write"] else mine.buffers["prefix"][0].float()
        mine.buffers["prefix"][0] = (old + total.float()).bfloat16()
        ranks.merge(call, mine, together.gather)


def make(*_: object, **__: object) -> list[Subject]:
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if os.environ.get("FAULT") == "refuses" and os.environ.get("RANK") == "3" and first:
        raise InputError("vLLM is not installed")
    return [OverGloo("specialized", name="vllm-specialized"), Emulated("default"), Emulated("specialized")]


subjects.make = make  # type: ignore[assignment]
if os.environ.get("FAULT") == "other code" and os.environ.get("RANK") == "3":
    provenance.source = lambda: "another"
if os.environ.get("FAULT") == "apart":
    group.FAILED = timedelta(seconds=10)
if __name__ == "__main__":
    cli.main()
