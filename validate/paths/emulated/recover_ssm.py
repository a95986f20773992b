"""RecoverSSM as the default path computes it, one rank. The specialized path refuses it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import fma
from validate.paths.emulated.kda import BF16, DefaultKda

NULL = 0  # slots up to this are no request's


@dataclass(frozen=True)
class Records:
    """What a verify step leaves to the commit, by row of the step's verifying requests.

    ``correction`` [requests, q, H, V] fp32, ``key`` [requests, q, H, K] bf16, before its norm, and ``gate`` [requests, q, H, K]
    bf16, the projection (recoverssm.py, ``KDARecoverSSMRecords``).
    """

    correction: Tensor
    key: Tensor
    gate: Tensor


@dataclass(frozen=True)
class Kept:
    """Of one request: ``count`` tokens are folded into the state of slot ``source`` and stored in slot ``target``."""

    source: int
    target: int
    count: int


class DefaultRecoverSsm(DefaultKda):
    """vLLM's Triton kernels: the verify step's convolution and recurrence, the gated norm, then the commit's two folds.

    The verify step rounds as the default path of ``kda`` does. Its records are exact but for the correction, which is fp32: the
    key and the gate are bf16 already. The commit goes from the last accepted token to the first, multiplying up the decays of
    the tokens after it, and adds what the decays leave of the state last (vLLM 0.33.0, models/kimi_k3/nvidia/ops/recoverssm.py).
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.recover_ssm.reference`` says what the tensors are."""
        self.commit(call, self.verify(call))

    def verify(self, call: Call) -> Records:
        """Outputs, rolled taps, and the records; the state stays."""
        i, q = call.inputs, call.shape["q"]
        heads, dim = i["a_log"].numel(), i["norm"].numel()
        conv, state, out = call.buffers["conv"], call.buffers["state"], call.outputs["out"].unflatten(-1, (heads, dim))
        raw_gate = self.raw_gate(i["f_a"], i["f_b"])
        decay = self.decay(raw_gate, i).unflatten(-1, (heads, dim))
        beta, gate = self.sigmoid(i["beta"].float()), self.sigmoid(i["gate"].float()).unflatten(-1, (heads, dim))
        count = len(i["slots"])
        records = Records(
            torch.full((count, q, heads, dim), torch.nan),
            torch.full((count, q, heads, dim), torch.nan, dtype=BF16),
            torch.full((count, q, heads, dim), torch.nan, dtype=BF16),
        )
        for b, slot in enumerate(i["slots"].tolist()):
            start, end = int(i["starts"][b]), int(i["starts"][b + 1])
            if not self.is_live(slot):
                out[start:end] = 0
                continue
            window = self.window(conv, i["slots"][b], 0, i["x"][start:end])
            conv[slot, :, : end - start + 2] = self.next_taps(window, end - start)
            current = state[slot : slot + 1].float()
            for t, row in enumerate(range(start, end)):
                own = slice(row, row + 1)
                activated = self.convolve(window[None, :, t : t + 4], i["conv_weight"])
                query, key, value = activated.view(1, 3, heads, dim).unbind(1)
                records.key[b, t], records.gate[b, t] = key[0].to(BF16), raw_gate[row].view(heads, dim).to(BF16)
                query = self.unit(query, i["l2_eps"]) * dim**-0.5
                key = self.unit(key, i["l2_eps"])
                records.correction[b, t] = self.recorded(self.correction(current * decay[own, :, None], beta[own], key, value))[0]
                current, attended = self.step(current, decay[own], beta[own], query, key, value)
                out[row] = self.normalise(attended, gate[own], i)[0]
            self.verified(state, slot, current[0])
        return records

    def commit(self, call: Call, records: Records) -> None:
        """The accepted tokens, folded into each request's state, and its taps."""
        conv, state = call.buffers["conv"], call.buffers["state"]
        for b, slot in enumerate(call.inputs["slots"].tolist()):
            if not self.is_live(slot):
                continue
            plan = self.plan(call, b, slot)
            # Both are read before either is written: a target may be the source.
            states = [self.fold(state[one.source].float(), records, self.row(call, b), one.count, call) for one in plan]
            taps = [conv[one.source, :, self.first_tap(call, one.count) :][:, :3].clone() for one in plan]
            for one, new_state, new_taps in zip(plan, states, taps, strict=True):
                state[one.target] = self.stored(new_state).to(state.dtype)
                conv[one.target, :, :3] = new_taps

    def plan(self, call: Call, b: int, slot: int) -> list[Kept]:
        """What is kept of request ``b``: with prefix caching, the end of a block first, if it is passed."""
        i = call.inputs
        request = self.request(call, b)
        count = self.taken(int(i["accepted"][request]), int(i["starts"][b + 1] - i["starts"][b]))
        if i["table"] is None:
            return [Kept(slot, slot, count)]
        row, before, block = i["table"][request].tolist(), int(i["computed"][request]), i["block"]
        last = Kept(slot, row[(before + count - 1) // block], count)
        full = before // block
        if before + count < (full + 1) * block:
            return [last]
        return [Kept(slot, row[full], (full + 1) * block - before), last]

    def fold(self, state: Tensor, records: Records, row: int, count: int, call: Call) -> Tensor:
        """fp32 [H, V, K]: the state after ``count`` recorded tokens."""
        i = call.inputs
        heads, dim = i["a_log"].numel(), i["norm"].numel()
        passed, added = torch.ones(heads, 1, dim), torch.zeros_like(state)
        for t in reversed(range(count)):
            key = self.unit(records.key[row, t].float(), i["l2_eps"])
            decay = self.decay(records.gate[row, t].float().view(1, -1), i).view(heads, 1, dim)
            passed, added = self.folded(passed, added, records.correction[row, t][..., None] * key[:, None], decay)
        return fma(state, passed, added)

    def folded(self, passed: Tensor, added: Tensor, update: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        """One token before those so far: the decay of all of them, and the sum of their updates."""
        return passed * decay, fma(update, passed, added)

    def unit(self, x: Tensor, eps: float) -> Tensor:
        """Each head's vector times the reciprocal root of its sum of squares."""
        return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + eps)

    def is_live(self, slot: int) -> bool:
        """Whether a request has a state."""
        return slot > NULL

    def recorded(self, correction: Tensor) -> Tensor:
        """The correction as it is kept: fp32."""
        return correction

    def verified(self, state: Tensor, slot: int, after: Tensor) -> None:
        """What the verify step does with its last state: nothing."""

    def request(self, call: Call, b: int) -> int:
        """The request of the step that is the ``b``-th to verify."""
        return b if call.inputs["indices"] is None else int(call.inputs["indices"][b])

    def row(self, call: Call, b: int) -> int:
        """Where the records of the ``b``-th are."""
        return b

    def taken(self, accepted: int, length: int) -> int:
        """How many tokens are folded."""
        return min(accepted, length)

    def first_tap(self, call: Call, count: int) -> int:
        """The column of the rolled taps that becomes the first."""
        return count - 1

    def stored(self, state: Tensor) -> Tensor:
        """The folded state before it is stored in the dtype of the cache."""
        return state
