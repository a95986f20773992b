"""vLLM's kernels of one GPU and of a shared context, each played by what its source says of it, on a CPU.

A kernel here reads and writes the memory that its launch gave it: operands by their places, weights through the TMA maps
that vLLM described, other ranks' mailboxes through addresses. Sums are exact before they are rounded where the kernel
rounds. Read from 0.33.0: gemm/splitk.py, cute_dsl/_skinny_gemm.py, moe/dense.py, moe/front.py, moe/shared.py,
moe/small_batch/front_tp8.py, attn_res/kernel.py, oproj/consumer.py, mla/query.py, mla/value.py, mla/dcp.py; and of the
cores mla_decode_fp8.py of tokenspeed_mla 2.0.3 and the front of FlashInfer's. The emulation and the references are not used.
"""

import ctypes
import math
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.paths import Lost

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
ARMED = -0x80000000
HIDDEN = 7168
TILE = 128  # keys that a core takes at a time
MAPS: dict[int, Any] = {}  # what a TMA map describes, by its address
EMPTY_LSE = -3.0e38  # of a source without keys


class Ranks:
    """Symmetric memory of ranks that are threads here, by the order of its allocation; kernels meet where they poll."""

    def __init__(self, size: int) -> None:
        self.rank = 0  # that is being prepared
        self.boxes: list[list[Tensor]] = []
        self._taken = [0] * size
        self._barrier = threading.Barrier(size)

    def empty(self, *arguments: Any, **options: Any) -> Tensor:
        """Instead of ``symm_mem.empty``."""
        place = self._taken[self.rank]
        if place == len(self.boxes):
            self.boxes.append([torch.empty(*arguments, **options) for _ in self._taken])
        self._taken[self.rank] += 1
        return self.boxes[place][self.rank]

    def rendezvous(self, tensor: Tensor, group: object) -> Any:
        """Peers' addresses are those of their memory; a multicast address says which allocation it is."""
        place = next(n for n, box in enumerate(self.boxes) if box[self.rank] is tensor)
        peers = [box.data_ptr() for box in self.boxes[place]]
        return SimpleNamespace(multicast_ptr=(place + 1) << 40, buffer_ptrs=peers)

    def everywhere(self, address: int, dtype: torch.dtype) -> list[Tensor]:
        """Every rank's memory from a multicast address on, flat."""
        place, offset = (address >> 40) - 1, address % (1 << 40)
        return [box.view(-1).view(torch.uint8)[offset:].view(dtype) for box in self.boxes[place]]

    def meet(self) -> None:
        """All ranks have come as far."""
        self._barrier.wait(60)

    def abort(self) -> None:
        """One has failed: the others need not wait."""
        self._barrier.abort()


RANKS = Ranks(1)


def memory(address: int, shape: Sequence[int], dtype: torch.dtype, pitch: int | None = None) -> Tensor:
    """[..., columns] at an address; ``pitch``: elements from a row to the next."""
    rows, columns = math.prod(shape[:-1]), shape[-1]
    pitch = pitch or columns
    size = ((rows - 1) * pitch + columns) * dtype.itemsize
    flat = torch.frombuffer((ctypes.c_ubyte * size).from_address(address), dtype=dtype)
    return flat.as_strided((rows, columns), (pitch, 1)).view(shape)


def tensor_maps(specs: Sequence[Any], device: object) -> Tensor:
    """Instead of vLLM's: descriptors of 128 bytes, by whose addresses the kernels find what they describe."""
    found = torch.zeros(128 * len(specs), dtype=torch.uint8)
    for n, spec in enumerate(specs):
        MAPS[found.data_ptr() + 128 * n] = spec
    return found


def mapped(address: int, box: tuple[int, int]) -> Tensor:
    """bf16 [rows, columns] behind a map whose box the kernel takes to be this."""
    pointer, _, (columns, rows), (pitch,), there, *_ = MAPS[address]
    assert tuple(there) == box, f"a box of {there}, the kernel loads {box}"
    return memory(pointer, (rows, columns), BF16, pitch // 2)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """fp32 ``x @ weight.T`` [rows, n], rounded once."""
    return (x.double() @ weight.double().T).float()


def situ(gate: Tensor, up: Tensor, beta: float, linear: float) -> Tensor:
    """bf16: both bounds above 0, as K3's are."""
    gate, up = gate.double(), up.double()
    return (beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * linear * torch.tanh(up / linear)).to(BF16)


def positive(values: Tensor) -> Tensor:
    """Without -0, as what goes into mailboxes."""
    return values + 0.0


def e4m3(values: Tensor) -> Tensor:
    """uint8: saturating, as cvt.rn.satfinite; NaN is 0x7F."""
    return values.float().clamp(-448, 448).to(E4M3).view(torch.uint8)


def polled(box: Tensor) -> Tensor:
    """A mailbox's rows, once no word is the sentinel; then they are armed again."""
    words = box.view(torch.int32)
    waiting = int((words == ARMED).sum())
    if waiting:
        raise Lost(waiting, f"waits for ever: {waiting} words are armed")
    there = box.clone()
    words.fill_(ARMED)
    return there


# The projections.


def CuteSkinnyGemm(kernel: Any, x: Tensor, weight: Tensor, residual: Tensor, out: Tensor, *_: Any) -> None:
    """All of K by products of scalars."""
    assert len(x) == kernel.num_rows
    out.copy_(product(x, weight))


def SplitKGemm(kernel: Any, a: Tensor, b: Tensor, c: Tensor, _: Tensor, a_map: int, *__: Any) -> None:
    """C [n, rows, 1]: blocks of the cluster take whole tiles of K, and what no tile holds is left out."""
    weight = mapped(a_map, (64, kernel.cta_m))
    assert tuple(weight.shape) == tuple(a.shape[:2])
    tiles = a.shape[1] // kernel.cta_k // kernel.split_k * kernel.split_k
    k = slice(0, tiles * kernel.cta_k)
    c[:, :, 0].copy_(product(b[:, k, 0], weight[:, k]).T)


# The gated MLPs.


def DenseSitu(kernel: Any, x: Tensor, out: Tensor, beta: float, linear: float, *_: Any) -> None:
    """The activation, and zeros up to the padded width."""
    gate, up = x[:, : kernel.hidden], x[:, kernel.hidden : 2 * kernel.hidden]
    out[:, : kernel.hidden] = situ(gate, up, beta, linear)
    out[:, kernel.hidden : kernel.padded] = 0


def RouteSitu(kernel: Any, *operands: Any) -> None:
    """Its third role: fp32 gate and up, rounded before the activation."""
    assert kernel.roles == ("situ",)
    gate_up, hidden, _, beta, linear = operands[6:11]
    width, rows = kernel.shared, slice(0, kernel.batch)
    hidden[rows] = situ(gate_up[rows, :width].to(BF16), gate_up[rows, width:].to(BF16), beta, linear)


def SharedUmma(kernel: Any, x: Tensor, maps: Tensor, h: Tensor, *rest: Any) -> None:
    """Its half beside the front: gate, up and the activation. Rows of the front's are not to be published here."""
    assert kernel.gate
    gate_up, width = mapped(maps.data_ptr(), (64, 32)), kernel.hidden
    if kernel.front is not None:
        rows, split, valid, _ = kernel.front
        assert len(mapped(maps.data_ptr() + 256, (64, 32))) == rows
        assert valid == 0
        assert split >= rows
    values = product(x[: kernel.batch], gate_up).to(BF16)
    h[: kernel.batch] = situ(values[:, :width], values[:, width:], *rest[5:7])


def SharedDown(kernel: Any, h: Tensor, maps: Tensor, peers: Tensor, parity: int, rank: int, capacity: int, *_: Any) -> None:
    """Each owner's columns of every row to its mailbox [parity, source, row, column]."""
    values = positive(product(h[: kernel.batch], mapped(maps.data_ptr() + 128, (64, 32))).to(BF16))
    shard = HIDDEN // kernel.tp
    for owner, address in enumerate(peers.tolist()):
        first = address + 2 * (parity * kernel.tp + rank) * capacity * shard
        memory(first, (kernel.batch, shard), BF16).copy_(values[:, owner * shard : (owner + 1) * shard])


def SharedSituTables(kernel: Any, tables: Tensor, beta: float, linear: float, *_: Any) -> None:
    """The activation's two factors of every bf16, by its bits."""
    values = torch.arange(-(1 << 15), 1 << 15).roll(1 << 15).to(torch.int16).view(BF16).double()
    tables[:65536] = beta * torch.tanh(values / beta) * torch.sigmoid(values)
    tables[65536:] = linear * torch.tanh(values / linear)


def MoeSharedTP8(kernel: Any, *operands: Any) -> None:
    """Once the input row and gate and up are published: the activation by tables, and the down projection of the row."""
    xmoe, down, tables, gate_up, out, half, third = operands[:7]
    armed = int((xmoe[half, 0, 0].view(torch.int32) == ARMED).sum())
    words = gate_up.view(torch.int32)[2 * half * 1536 :][:1536]
    armed += int((words & 1 == 0).sum())
    if armed:
        raise Lost(armed, f"waits for ever: {armed} words are armed")
    bits = words >> 16 & 0xFFFF
    hidden = (tables[bits[:768]] * tables[65536:][bits[768:]]).to(BF16)
    out[third, 0] = product(hidden[None], down)[0]


# The attention residuals.


def _summed(box: Tensor, rows: int) -> Tensor:
    """fp32: a mailbox's slots in their order."""
    parts = polled(box[:, :rows])
    total = parts[0].float()
    for part in parts[1:]:
        total = total + part.float()
    return total if len(parts) == 1 else total.to(BF16).float()


def _residual(kernel: Any, delta: Tensor, state: Sequence[Tensor], out: Tensor, eps: float, out_eps: float) -> None:
    """Updates the prefix, mixes it with the saved blocks, normalises."""
    prefix, blocks, norm, query, gamma = state
    new = (prefix.float() + delta if kernel.has_delta else delta).to(BF16)
    prefix.copy_(new)
    sources = torch.cat([blocks[:, : kernel.nb], new[:, None]], 1).double()
    weight = norm.double() * query.double()
    logits = (sources @ weight) * torch.rsqrt(sources.square().mean(-1) + eps)
    mixture = (logits.softmax(1)[..., None] * sources).sum(1)
    if getattr(kernel, "final", False):
        mixture = mixture.to(BF16).double()
    out.copy_(mixture * torch.rsqrt(mixture.square().mean(-1, keepdim=True) + out_eps) * gamma.double())


def ClusterAttnRes(kernel: Any, source: Tensor, *rest: Any) -> None:
    """A cluster a row of the prefix; the delta is a tensor's or a mailbox's."""
    state, (out, eps, out_eps), aux = rest[:5], rest[5:8], rest[8:-1]
    rows = len(state[0])
    delta = _summed(source, rows) if kernel.slots else source[:rows].float()
    _residual(kernel, delta, state, out, eps, out_eps)
    for copy in aux:
        copy.copy_(state[0])
    if kernel.write >= 0:
        state[1][:, kernel.write] = state[0]


def OprojConsumer(kernel: Any, box: Tensor, *rest: Any) -> None:
    """The same form behind the o-projection, whose sum over the ranks is rounded always."""
    state, out, (xmoe, hints, eps, out_eps) = rest[:5], rest[5], rest[6:10]
    assert not kernel.twoshot
    assert xmoe is None and hints is None  # noqa: PT018
    _residual(kernel, _summed(box, len(state[0])).to(BF16).float(), state, out, eps, out_eps)


# Latent attention.


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    x = x.double()
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.double()).to(BF16)


def MlaQuery(kernel: Any, *operands: Any) -> None:
    """The query [rows, heads, 576] in bytes, and the new rows of the cache."""
    qkv, q_norm, kv_norm, q_b, w_uk, cache, slots, q_inverse, k_inverse, eps, query = operands[:11]
    rows, heads = kernel.batch, kernel.heads
    q = product(_normed(qkv[:rows, :1536], q_norm, eps), q_b).to(BF16).view(rows, heads, 192).double()
    absorbed = torch.einsum("rhp,hpl->rhl", q[..., :128], w_uk.double()).to(BF16).float()
    query[:rows] = e4m3(torch.cat([absorbed, q[..., 128:].float()], -1) * q_inverse)
    for row, slot in enumerate(slots.tolist()):
        if slot >= 0:
            new = torch.cat([_normed(qkv[row, 1536:2048], kv_norm, eps), qkv[row, 2048:2112]])
            cache[slot // cache.shape[1], slot % cache.shape[1]] = e4m3(new.float() * k_inverse)
    if kernel.dcp:
        _gathered(kernel, query[:rows], *operands[11:14])


def _gathered(kernel: Any, query: Tensor, mailbox: Tensor, mc: int, rank: int) -> None:
    """Publishes the query into this rank's heads of every mailbox [rows, ranks * heads, 576], and waits for the others'."""
    rows, heads = query.shape[:2]
    for there in RANKS.everywhere(mc, torch.uint8):
        there[: rows * kernel.dcp * heads * 576].view(rows, kernel.dcp, heads, 576)[:, rank] = query
    RANKS.meet()
    armed = int((mailbox[:rows].view(torch.int32) == -1).sum())
    if armed:
        raise Lost(armed, f"waits for ever: {armed} words of queries are armed")


def MlaValue(kernel: Any, latent: Tensor, w_uv: Tensor, gate: Tensor, lengths: Tensor, out: Tensor, *_: Any) -> None:
    """The value projection, gated; rows of empty requests are zero."""
    rows = kernel.batch
    value = torch.einsum("rhl,hlv->rhv", latent[:rows].double(), w_uv.double()).to(BF16).flatten(1)
    live = (lengths > 0).repeat_interleave(kernel.q)[:rows, None]
    out[:rows] = torch.where(live, value.double() * torch.sigmoid(gate[:rows].double()), 0.0).to(BF16)


def _attended(
    query: Tensor,
    cache: Tensor,
    table: Tensor,
    lengths: Tensor,
    bounds: Tensor,
    out: Tensor,
    lse: Tensor | None,
    scales: tuple[float, float],
    splits: int,
) -> None:
    """[requests, q, heads, 512], log2-sum-exp2 [requests, q, heads]: row t of a request sees its ``bounds`` [requests, q] keys.

    ``splits`` 0: all keys at once. Requests without keys leave NaN. A core looks up the pages of whole tiles.
    """
    softmax, scale = scales
    block = cache.shape[1]
    for request, length in enumerate(lengths.tolist()):
        out[request] = float("nan")
        if lse is not None:
            lse[request] = float("nan")
        if length <= 0:
            continue
        tiles = -(-length // TILE)
        pages = tiles * TILE // block
        assert pages <= table.shape[1], f"pages {table.shape[1]} to {pages} of a tile are no part of the table"
        keys = cache[table[request, :pages].long()].flatten(0, 1)[:length].double()
        scores = query[request].double() @ keys.T * (softmax / math.log(2))
        hidden = torch.arange(length) >= bounds[request, :, None, None]
        scores = scores.masked_fill(hidden, -torch.inf)
        share = -(-tiles // splits) * TILE if splits else length
        parts = [
            _split(scores[..., first : first + share], keys[first : first + share, :512], TILE if splits else length)
            for first in range(0, length, share)
        ]
        sums = torch.stack([part[1] for part in parts])
        overall = _log2_sum(sums)
        weights = torch.exp2(sums - overall.clamp_min(-1e300))[..., None]
        if lse is not None:
            lse[request] = overall
        out[request] = ((torch.stack([part[0] for part in parts]) * weights).sum(0) * scale).to(BF16)


def _log2_sum(sums: Tensor) -> Tensor:
    top = sums.amax(0)
    return top + torch.log2(torch.exp2(sums - top.clamp_min(-1e300)).sum(0))


def _split(scores: Tensor, values: Tensor, tile: int) -> tuple[Tensor, Tensor]:
    """Normalised output and log2 of the sum of a split, scores in powers of two.

    Probabilities meet the values in E4M3, relative to a maximum that is kept until one passes it by more than 2**8.
    """
    top = torch.full(scores.shape[:2], -torch.inf, dtype=torch.float64)
    total, out = torch.zeros_like(top), torch.zeros(*top.shape, values.shape[1], dtype=torch.float64)
    for first in range(0, len(values), tile):
        new = torch.maximum(top, scores[..., first : first + tile].amax(-1))
        new = torch.where((top > -torch.inf) & (new - top <= 8), top, new)
        shown = new.clamp_min(-1e300)  # rows that see nothing yet
        factor, top = torch.exp2(top - shown), new
        weights = torch.exp2(scores[..., first : first + tile] - shown[..., None])
        total = total * factor + weights.sum(-1)
        out = out * factor[..., None] + weights.float().to(E4M3).double() @ values[first : first + tile]
    return out / torch.where(total == 0, 1.0, total)[..., None], top + torch.log2(total)


def BlackwellMultiHeadLatentAttentionForwardFP8(kernel: Any, *operands: Any) -> None:
    """tokenspeed's core. Of a context that is shared, a rank's keys; then a row sees them by its position in the whole."""
    q_latent, q_rope, c_latent, c_rope, table, out, lse, _, splits, lengths, causal, _, softmax, scale = operands[:14]
    assert kernel.is_causal
    assert kernel.page_size == c_latent.shape[1]
    query, cache = torch.cat([q_latent, q_rope], -1), torch.cat([c_latent, c_rope], -1)
    count, turn = query.shape[1], kernel.cp_interleave_size
    seen = (causal[:, None] - count + 1 + torch.arange(count)).clamp_min(0)
    cycles, rest = seen // (kernel.cp_world * turn), seen % (kernel.cp_world * turn)
    bounds = cycles * turn + (rest - kernel.cp_rank * turn).clamp(0, turn)
    _attended(query, cache, table, lengths, bounds, out, lse, (softmax, scale), splits)


def trtllm(**given: Any) -> None:
    """FlashInfer's core."""
    query, lengths = given["query"], given["seq_lens"]
    bounds = lengths[:, None] - query.shape[1] + 1 + torch.arange(query.shape[1])
    scales = given["bmm1_scale"], given["bmm2_scale"]
    _attended(query, given["kv_cache"][:, 0], given["block_tables"], lengths, bounds, given["out"], None, scales, 0)


def DcpValue(kernel: Any, *operands: Any) -> None:
    """Arms the queries' mailbox, sends every head's partial output to its owner, merges this rank's heads, projects, gates."""
    rows, rows_lse, lengths, box, lse_box, peers, lse_peers, mailbox, w_uv, gate, totals, out, parity, rank = operands[:14]
    count, heads, size, capacity = kernel.batch, kernel.heads, kernel.size, box.shape[1]
    mailbox.view(-1)[: count * size * heads * 576] = 0xFF
    has = (lengths > 0).repeat_interleave(kernel.q)[:count, None]
    parts = torch.where(has[..., None], positive(rows[:count, 0]), 0.0)
    sums = rows_lse[:count, 0]
    sums = torch.where(has & sums.isfinite() & (sums > EMPTY_LSE), sums, EMPTY_LSE)
    slot = (parity * size + rank) * capacity * heads
    for owner, (there, there_lse) in enumerate(zip(peers.tolist(), lse_peers.tolist(), strict=True)):
        own = slice(owner * heads, (owner + 1) * heads)
        memory(there + 2 * slot * 512, (count, heads, 512), BF16).copy_(parts[:, own])
        memory(there_lse + 4 * slot, (count, heads), torch.float32).copy_(sums[:, own])
    RANKS.meet()
    words = lse_box[:, :count].view(torch.int32)
    if (words == -1).any():
        raise Lost(int((words == -1).sum()), "waits for ever for sums")
    sums, parts = lse_box[:, :count].clone(), polled(box[:, :count])
    words.fill_(-1)
    weights = torch.where(sums > EMPTY_LSE, torch.exp2((sums - sums.amax(0)).double()), 0.0)
    weights = weights / weights.sum(0).clamp_min(1e-300)
    latent = (weights[..., None] * parts.double()).sum(0).to(BF16)
    MlaValue(kernel, latent, w_uv, gate, totals, out)
