"""Kimi Delta Attention as each path computes it, one rank."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import chain_sum, exp, fma, mma, sigmoid, tree_sum

BF16 = torch.bfloat16
# Column order of the instructions with wide loads (kda/kernel.py gate_warp): chunk c, lane quarter, element.
WIDE_COLUMNS = [32 * (c // 2) + 8 * lane + 4 * (c % 2) + e for c in range(8) for lane in range(4) for e in range(4)]


def schedule(heads: int, requests: int, q: int) -> tuple[int, int]:
    """(lanes that sum a state row, thread blocks a head) of the specialized kernel.

    Restates SCHEDULE and SPEC_SCHEDULE of kda/prepared.py and the defaults of kda/kernel.py (vLLM 0.33.0).
    """
    if q > 1:
        bounds = {12: ((1, 8), (4, 8), (12, 4), (16, 2)), 6: ((2, 8), (12, 8), (16, 4))}.get(heads, ())
        return next(((8, blocks) for most, blocks in bounds if requests <= most), (16, 4))
    if (heads == 12 and (16 <= requests <= 32 or requests == 64)) or (heads == 6 and 32 <= requests <= 64):
        return 16, 2
    few = requests <= (4 if heads == 6 else 2)
    return (8 if few else 16), (8 if requests == 1 else 4)


class DefaultKda:
    """vLLM's Triton pair: ``causal_conv1d_update``, then the packed (or verify) recurrence, then ``FusedRMSNormGated``.

    Rounds the projected gate, the activated convolution and the attention output to bf16 (vLLM 0.33.0,
    models/kimi_k3/nvidia/kda.py ``_forward``). It is the default at TP16; at TP8 the default is a compiled kernel whose
    source is not in the wheel.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.kda.reference`` says what the tensors are."""
        i = call.inputs
        requests, q = i["slots"].shape
        heads, dim = i["a_log"].numel(), i["norm"].numel()
        raw_gate = self.raw_gate(i["f_a"], i["f_b"])
        decay = self.decay(raw_gate, i).view(requests, q, heads, dim)
        beta = self.sigmoid(i["beta"].float()).view(requests, q, heads)
        gate = self.sigmoid(i["gate"].float()).view(requests, q, heads, dim)
        x = i["x"].view(requests, q, -1)
        out = call.outputs["out"].view(requests, q, heads, dim)
        conv, state = call.buffers["conv"], call.buffers["state"]
        start_slots = self.start_slots(i["slots"], i["accepted"])
        start_states, homes = state[start_slots.clamp_min(0)].clone(), i["slots"][:, 0]
        windows = [self.window(conv, homes[b], int(i["accepted"][b]) - 1, x[b]) for b in range(requests)]
        live = [b for b in range(requests) if self.is_live(int(start_slots[b]))]
        out[[b for b in range(requests) if b not in live]] = 0
        for b in live:
            conv[homes[b], :, : q + 2] = self.next_taps(windows[b], q)
        if not live:
            return
        rows = torch.tensor(live)
        current = start_states[rows]
        for t in range(q):
            activated = self.convolve(torch.stack([windows[b][:, t : t + 4] for b in live]), i["conv_weight"])
            query, key, value = activated.view(len(live), 3, heads, dim).unbind(1)
            query = self.unit(query, i["l2_eps"]) * dim**-0.5
            key = self.unit(key, i["l2_eps"])
            current, attended = self.step(current, decay[rows, t], beta[rows, t], query, key, value)
            out[rows, t] = self.normalise(attended, gate[rows, t], i)
            for n, b in enumerate(live):
                self.store(state, int(i["slots"][b, t]), current[n])

    def raw_gate(self, f_a: Tensor, f_b: Tensor) -> Tensor:
        """bf16-rounded [rows, H * D] projection of the gate."""
        return mma(f_a, f_b).to(BF16).float()

    def decay(self, raw_gate: Tensor, i: Mapping[str, Any]) -> Tensor:
        """fp32 [rows, H * D]: exp of the bounded log decay."""
        rate = exp(i["a_log"]).repeat_interleave(i["norm"].numel())
        return exp(i["lower_bound"] * self.sigmoid(rate * (raw_gate + i["dt_bias"])))

    def sigmoid(self, x: Tensor) -> Tensor:
        """The path's logistic function."""
        return sigmoid(x)

    def start_slots(self, slots: Tensor, accepted: Tensor) -> Tensor:
        """[requests]: the slot that holds the state after the accepted tokens."""
        return slots.gather(1, accepted.long()[:, None] - 1)[:, 0]

    def is_live(self, slot: int) -> bool:
        """Whether a request has a state: slot 0 is the null block, negative ones are padding."""
        return slot > 0

    def window(self, conv: Tensor, home: Tensor, start: int, x: Tensor) -> Tensor:
        """bf16 [channels, 3 + q]: the three taps from ``start`` on, then the new inputs."""
        return torch.cat([conv[home, :, start : start + 3], x.T], 1)

    def next_taps(self, window: Tensor, q: int) -> Tensor:
        """bf16 [channels, q + 2]: what the next step finds in the convolution's slot."""
        return window[:, 1 : q + 3]

    def convolve(self, window: Tensor, weight: Tensor) -> Tensor:
        """fp32 activated convolution of [requests, channels, 4], as the recurrence gets it."""
        total = torch.zeros(window.shape[:2])
        for tap in range(4):
            total = fma(window[:, :, tap].float(), weight[:, tap], total)
        return self.round_convolved(total * self.sigmoid(total))

    def round_convolved(self, activated: Tensor) -> Tensor:
        """The activated convolution as it passes between the two kernels."""
        return activated.to(BF16).float()

    def unit(self, x: Tensor, eps: float) -> Tensor:
        """Each head's vector over its 2-norm."""
        return x / torch.sqrt(tree_sum(x * x) + eps)[..., None]

    def step(
        self, state: Tensor, decay: Tensor, beta: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One token of the delta rule: the new state [b, H, V, K] and the attention output [b, H, V]."""
        state = state * decay[:, :, None, :]
        delta = self.correction(state, beta, key, value)
        state = fma(delta[..., None], key[:, :, None, :], state)
        return state, self.round_output(self.dot(state, query))

    def correction(self, state: Tensor, beta: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """[b, H, V]: what the decayed state is corrected by along the key."""
        return (value - self.dot(state, key)) * beta[..., None]

    def dot(self, state: Tensor, vector: Tensor) -> Tensor:
        """[b, H, V]: every state row times ``vector``, summed over keys by a tree."""
        return tree_sum(state * vector[:, :, None, :])

    def round_output(self, attended: Tensor) -> Tensor:
        """The attention output as it passes between the recurrence and the norm."""
        return attended.to(BF16).float()

    def normalise(self, attended: Tensor, gate: Tensor, i: Mapping[str, Any]) -> Tensor:
        """bf16 [b, H, D]: gated RMSNorm over a head."""
        rstd = torch.rsqrt(tree_sum(attended * attended) / attended.shape[-1] + i["norm_eps"])
        return (attended * rstd[..., None] * i["norm"] * gate).to(BF16)

    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        """Writes a token's state, unless its slot is null or padding."""
        if slot > 0:
            state[slot] = value


class SpecializedKda(DefaultKda):
    """``KdaSplit`` (vLLM 0.33.0, specialized_decode/cutedsl/kda/kernel.py): one fused kernel, fp32 between its steps.

    Only the projected gate is rounded. Its order of summation follows the gate mode, and a state row is summed by 8 or 16
    lanes whose columns interleave in groups of four. ``regime``, the rows that the kernel was prepared for, selects both.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage in the regime of the call."""
        q = call.shape["q"]
        self.regime, self.verify = call.shape["regime"], q > 1
        self.lanes, self.blocks = schedule(call.inputs["a_log"].numel(), self.regime // q, q)
        super().__call__(call)

    def raw_gate(self, f_a: Tensor, f_b: Tensor) -> Tensor:
        """Modes of kda/kernel.py ``gate_warp``: 0 one chain of MMAs, 1 four chains of two, 2 sixteen 8-FMA partials.

        Chosen as providers.py ``Attention`` does: with 12 heads (TP8) 1 at one row, 2 at 2 to 8 rows, 0 above and 1 in
        verify steps; with 6 heads (TP16) always 0. Where a block holds 64 rows of a head or more, its wide loads deal the
        columns to the instructions in another order.
        """
        heads = f_b.shape[0] // f_a.shape[1]
        mode = 0
        if heads == 12:
            mode = 1 if self.verify or self.regime == 1 else 2 if self.regime <= 8 else 0
        if mode == 2:
            return tree_sum(self.partials(f_a.float(), f_b.float())).to(BF16).float()
        if self.blocks == 2:
            f_a, f_b = f_a[:, WIDE_COLUMNS], f_b[:, WIDE_COLUMNS]
        if mode == 0:
            return mma(f_a, f_b).to(BF16).float()
        parts = torch.stack([mma(f_a[:, c : c + 32], f_b[:, c : c + 32]) for c in range(0, 128, 32)])
        return chain_sum(parts).to(BF16).float()

    def partials(self, f_a: Tensor, f_b: Tensor) -> Tensor:
        """[rows, H * D, 16]: partial k sums the products 8 k ... 8 k + 7 in order."""
        a, b = f_a.view(-1, 1, 16, 8), f_b.view(1, -1, 16, 8)
        total = torch.zeros(a.shape[0], b.shape[1], 16)
        for e in range(8):
            total = fma(a[..., e], b[..., e], total)
        return total

    def round_convolved(self, activated: Tensor) -> Tensor:
        """Stays in fp32."""
        return activated

    def unit(self, x: Tensor, eps: float) -> Tensor:
        """Each head's vector times the reciprocal root of its sum of squares."""
        return x * torch.rsqrt(tree_sum(x * x) + eps)[..., None]

    def dot(self, state: Tensor, vector: Tensor) -> Tensor:
        """Each lane sums four neighbouring columns in order, then its groups of four, then the lanes by a butterfly."""
        groups = (state * vector[:, :, None, :]).unflatten(-1, (-1, self.lanes, 4))
        by_lane = ((groups[..., 0] + groups[..., 1]) + groups[..., 2]) + groups[..., 3]
        return tree_sum(tree_sum(by_lane.transpose(-1, -2)))

    def round_output(self, attended: Tensor) -> Tensor:
        """Stays in fp32 up to the gated norm."""
        return attended
