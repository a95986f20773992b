"""Output projection, its all-reduce and the residual as each path computes them, all ranks."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import chain_sum, gemm, tree_sum
from validate.paths.emulated.mailbox import arm, fold, poll

BF16 = torch.bfloat16
# Rows from which the all-reduce is two-shot (oproj/prepared.py TWOSHOT).
TWO_SHOT = {8: 33, 16: 17}
POLL_GROUPS = 4  # thread groups that add up disjoint ranks (oproj/prepared.py compile_oproj)


class DefaultOproj:
    """A bf16 linear layer on every rank, then an all-reduce; AttnRes adds the result to the prefix (vLLM 0.33.0,
    model.py).

    The all-reduce is taken to add in fp32 in the order of the ranks and to round once, as vLLM's one-shot kernel does
    (csrc/custom_all_reduce.cuh, eight GPUs at most); NVLink SHARP, which NCCL uses beyond, adds in fp32, too. A ring
    would round at every hop: this choice holds the specialized path to the stricter of the two.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.o_proj.reference`` says what the tensors are."""
        batch = call.shape["batch"]
        partial = self.partials(call.inputs["local"], call.inputs["weight"], call)
        delta = self.all_reduce(partial, call)[:, :batch]
        call.outputs["delta"].copy_(delta.to(BF16))
        prefix = call.buffers["prefix"]
        prefix.copy_(self.residual(prefix, delta, bool(call.shape["write"])))

    def partials(self, local: Tensor, weight: Tensor, call: Call) -> Tensor:
        """bf16 [ranks, rows, hidden]: every rank's share of the projection."""
        return gemm(local, weight).to(BF16).view(call.shape["tp"], -1, weight.shape[0])

    def all_reduce(self, partial: Tensor, call: Call) -> Tensor:
        """fp32 [ranks, rows, hidden]: the sum that each rank ends up with, before it is rounded."""
        return chain_sum(partial.float()).expand(partial.shape)

    def residual(self, prefix: Tensor, delta: Tensor, write: bool) -> Tensor:
        """bf16 prefix after the sub-layer: restarted at block-write layers, else increased."""
        rounded = delta.to(BF16)
        return rounded if write else (prefix.float() + rounded.float()).to(BF16)


class SpecializedOproj(DefaultOproj):
    """``OprojProducer`` or ``OprojUmma``, then ``OprojConsumer`` (vLLM 0.33.0, specialized_decode/cutedsl/oproj).

    Each rank multicasts its bf16 partial into a mailbox slot. Up to the two-shot sizes every rank adds up all slots;
    beyond, the owner of a column adds up and multicasts the bf16 sum. ``mailbox`` [parities, ranks, slots, hidden] is
    one rank's copy, or the owners' receive slots side by side; ``gather`` [parities, slots, hidden] receives the
    owners' sums.
    """

    @staticmethod
    def missing(call: Call) -> str | None:
        """The kernels exist at two sizes."""
        return None if call.shape["tp"] in TWO_SHOT else "the specialized path needs 8 or 16 ranks"

    def partials(self, local: Tensor, weight: Tensor, call: Call) -> Tensor:
        """By regime (oproj/prepared.py ``producer``), chains of a few K parts or one tcgen05 chain."""
        tp, regime = call.shape["tp"], call.shape["regime"]
        if regime <= 8:
            total = self.split(local, weight, parts=4, chains=4)
        elif tp == 8 and regime <= 16:
            total = self.split(local, weight, parts=8, chains=1)
        else:
            total = gemm(local, weight)
        return self.canonical(total.to(BF16)).view(tp, -1, weight.shape[0])

    def split(self, local: Tensor, weight: Tensor, parts: int, chains: int) -> Tensor:
        """K in ``parts`` equal ranges, whose 16-deep MMAs go round ``chains`` accumulators; parts are added in order.

        Two MMAs share 32 neighbouring columns: of each 8 that one thread loads, the first takes four and the second
        four.
        """
        total = torch.zeros(local.shape[0], weight.shape[0])
        columns = torch.arange(local.shape[1]).view(parts, -1, 4, 2, 4).transpose(2, 3)
        columns = columns.reshape(parts, -1, chains, 16).transpose(1, 2).flatten(2)  # [parts, chains, columns]
        for part in self.used_parts(parts):
            sums = [gemm(local[:, c], weight[:, c]) for c in columns[part]]
            total += tree_sum(torch.stack(sums, -1))
        return total

    def used_parts(self, parts: int) -> list[int]:
        """K parts in their order of addition."""
        return list(range(parts))

    def canonical(self, partial: Tensor) -> Tensor:
        """bf16 partial without the mailbox's sentinel."""
        return fold(partial)

    def all_reduce(self, partial: Tensor, call: Call) -> Tensor:
        """Publishes the partials, reads them on every rank, arms the slots again."""
        rows, parity = partial.shape[1], call.shape["parity"]
        box, gather = call.buffers["mailbox"], call.buffers["gather"]
        box[parity, :, :rows] = partial
        slots = box[self.read_parity(parity), :, :rows]
        if call.shape["regime"] < TWO_SHOT[call.shape["tp"]]:
            total = torch.stack([self.consume(slots, rank) for rank in range(call.shape["tp"])])
        else:
            gather[parity, :rows] = self.canonical(chain_sum(self.payload(slots)).to(BF16))
            total = self.payload(gather[parity, :rows]).expand(partial.shape)
            self.rearm(gather[parity], rows)
        for slot in box[parity]:
            self.rearm(slot, rows)
        return total

    def read_parity(self, parity: int) -> int:
        """Which half of the mailbox the consumer polls."""
        return parity

    def payload(self, slots: Tensor) -> Tensor:
        """fp32 contents of published slots."""
        return poll(slots)

    def consume(self, slots: Tensor, rank: int) -> Tensor:
        """fp32 [rows, hidden] on one rank: groups add up neighbouring ranks, then the groups are added in order."""
        groups = self.payload(slots).unflatten(0, (POLL_GROUPS, -1))
        return chain_sum(torch.stack([chain_sum(group) for group in groups]))

    def rearm(self, slots: Tensor, rows: int) -> None:
        """The reader's duty for the rows that were used. slots [slots, hidden]."""
        arm(slots[:rows])
