"""vLLM's kernels of one GPU, each played by what its source says of it, on a CPU.

A kernel here reads and writes the memory that its launch gave it: operands by their places, weights through the TMA maps
that vLLM described, other ranks' mailboxes through addresses. Sums are exact before they are rounded where the kernel
rounds. Read from 0.33.0: gemm/splitk.py, cute_dsl/_skinny_gemm.py, moe/dense.py, moe/front.py, moe/shared.py,
attn_res/kernel.py, oproj/consumer.py, mla/query.py, mla/value.py, and from the cores mla_decode_fp8.py of tokenspeed_mla
2.0.3 and the front of FlashInfer's. The adapters' own emulation and the references are not used.
"""

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from validate.paths import Lost

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
ARMED = -0x80000000
HIDDEN = 7168
TILE = 128  # keys that a core takes at a time
MAPS: dict[int, Any] = {}  # what a TMA map describes, by its address


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
    assert not kernel.dcp
    rows, heads = kernel.batch, kernel.heads
    q = product(_normed(qkv[:rows, :1536], q_norm, eps), q_b).to(BF16).view(rows, heads, 192).double()
    absorbed = torch.einsum("rhp,hpl->rhl", q[..., :128], w_uk.double()).to(BF16).float()
    query[:rows] = e4m3(torch.cat([absorbed, q[..., 128:].float()], -1) * q_inverse)
    for row, slot in enumerate(slots.tolist()):
        if slot >= 0:
            new = torch.cat([_normed(qkv[row, 1536:2048], kv_norm, eps), qkv[row, 2048:2112]])
            cache[slot // cache.shape[1], slot % cache.shape[1]] = e4m3(new.float() * k_inverse)


def MlaValue(kernel: Any, latent: Tensor, w_uv: Tensor, gate: Tensor, lengths: Tensor, out: Tensor, *_: Any) -> None:
    """The value projection, gated; rows of empty requests are zero."""
    rows = kernel.batch
    value = torch.einsum("rhl,hlv->rhv", latent[:rows].double(), w_uv.double()).to(BF16).flatten(1)
    live = (lengths > 0).repeat_interleave(kernel.q)[:rows, None]
    out[:rows] = torch.where(live, value.double() * torch.sigmoid(gate[:rows].double()), 0.0).to(BF16)


def _attended(
    query: Tensor, cache: Tensor, table: Tensor, lengths: Tensor, out: Tensor, scales: tuple[float, float], splits: int
) -> None:
    """[requests, q, heads, 512]: row t of a request sees the keys up to its own.

    ``splits`` 0: all keys at once. Requests without keys leave NaN. A core looks up the pages of whole tiles.
    """
    softmax, scale = scales
    count, block = query.shape[1], cache.shape[1]
    for request, length in enumerate(lengths.tolist()):
        out[request] = float("nan")
        if length <= 0:
            continue
        tiles = -(-length // TILE)
        pages = tiles * TILE // block
        assert pages <= table.shape[1], f"pages {table.shape[1]} to {pages} of a tile are no part of the table"
        keys = cache[table[request, :pages].long()].flatten(0, 1)[:length].double()
        scores = query[request].double() @ keys.T * (softmax / math.log(2))
        hidden = torch.arange(length) > length - count + torch.arange(count)[:, None, None]
        scores = scores.masked_fill(hidden, -torch.inf)
        share = -(-tiles // splits) * TILE if splits else length
        parts = [
            _split(scores[..., first : first + share], keys[first : first + share, :512], TILE if splits else length)
            for first in range(0, length, share)
        ]
        sums = torch.stack([part[1] for part in parts])
        weights = torch.exp2(sums - _log2_sum(sums))[..., None]
        out[request] = ((torch.stack([part[0] for part in parts]) * weights).sum(0) * scale).to(BF16)


def _log2_sum(sums: Tensor) -> Tensor:
    top = sums.amax(0)
    return top + torch.log2(torch.exp2(sums - top).sum(0))


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
    """tokenspeed's core over a whole context."""
    q_latent, q_rope, c_latent, c_rope, table, out, lse, _, splits, lengths, causal, _, softmax, scale = operands[:14]
    assert kernel.is_causal
    assert (kernel.cp_world, kernel.page_size, lse) == (1, c_latent.shape[1], None)
    assert torch.equal(causal, lengths)
    query, cache = torch.cat([q_latent, q_rope], -1), torch.cat([c_latent, c_rope], -1)
    _attended(query, cache, table, lengths, out, (softmax, scale), splits)


def trtllm(**given: Any) -> None:
    """FlashInfer's core."""
    places = (given[name] for name in ("block_tables", "seq_lens", "out"))
    _attended(given["query"], given["kv_cache"][:, 0], *places, (given["bmm1_scale"], given["bmm2_scale"]), 0)
