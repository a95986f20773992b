"""vLLM's two-shot producer over real ranks: eight processes, on as few as two GPUs, that store to each other's memory.

``torchrun --nproc-per-node 8 tests/paths/over_gpus.py VLLM CASE...`` prints each case's failed checks, and why it did not end.
On Hopper the consumer does not run: what each rank received is added up and shared by the host.
"""

import sys
from pathlib import Path

import torch
import torch.distributed._symmetric_memory as symm_mem

from validate.model.call import Call
from validate.numerics import judge, together
from validate.paths import group as processes
from validate.paths import vllm
from validate.paths.emulated import Emulated
from validate.paths.emulated.mailbox import SENTINEL
from validate.paths.vllm import binding, source
from validate.paths.vllm.adapter import Group, Needs, OverRanks, Prepared
from validate.paths.vllm.entries import PREPARED_OPROJ, imported
from validate.profiles import load

CAPACITY = 64  # rows of a receive slot


class PushedOproj(OverRanks):
    needs = Needs((9, 0), ranks=None)
    step = ("local",)

    def missing(self, call: Call, source: source.Source) -> str | None:
        return None if call.shape["batch"] == call.shape["regime"] <= 16 else "no mma.sync producer"

    def note(self, call: Call) -> str:
        return "partials by vLLM's producer over ranks; their sums by the host"

    def prepare(self, share: Call, source: source.Source, group: Group) -> Prepared:
        host, int32 = binding.host(source), binding.cutlass().Int32
        local, weight, delta = share.inputs["local"], share.inputs["weight"], share.outputs["delta"]
        (rows, k), width = local.shape, len(weight) // group.size
        code = imported(source, PREPARED_OPROJ, "compile_oproj")(
            "producer", k, rows, group.size, 1, True, False, False, CAPACITY, True
        )
        received = symm_mem.empty((group.size, CAPACITY, width), dtype=torch.bfloat16, device=delta.device)
        addresses = list(symm_mem.rendezvous(received, group.process_group).buffer_ptrs)
        peers = torch.tensor(addresses, dtype=torch.int64, device=delta.device)
        bound = [host.to_cute(tensor) for tensor in (local, weight, received, peers)]

        def collect() -> None:
            total = received[:, :rows].float().cumsum(0)[-1].to(torch.bfloat16)
            together_with = processes.current()
            assert together_with is not None
            columns = [part.to(delta.device) for part in together_with.gather(total.cpu())]
            delta[0] = torch.cat(columns, 1)
            old = 0 if share.shape["write"] else share.buffers["prefix"][0].float()
            share.buffers["prefix"][0] = (old + delta[0].float()).to(torch.bfloat16)

        def launch() -> None:
            code(*bound, int32(group.rank), host.stream(delta.device))

        return Prepared(launch, arm=lambda: received.view(torch.int32).fill_(SENTINEL), collect=collect)


def main(folder: str, *names: str) -> None:
    group = processes.current()
    assert group is not None
    vllm.ADAPTERS["specialized"]["o_proj"] = (PushedOproj(),)  # type: ignore[index]
    subject = vllm.Vllm("specialized", source.opened(Path(folder)), group.size)
    cases = {case.id: case for case in judge.cases(load("hopper"), ["o_proj"])}
    for name in names:
        call = judge.build(cases[name])
        ran = together.Over(subject, call, group)
        if group.rank == 0:
            failed = [
                f"{one.subject} {m.tensor} {m.check} {m.detail}"
                for one in judge.judge_call(call, [Emulated("default"), ran])
                for m in one.measurements
                if not m.passed
            ]
            print(f"{name}: {'; '.join(failed) or 'sound'}", flush=True)
        group.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
