"""Latent attention by vLLM's ``PreparedMla``: the query's kernel, a core and the value's; one rank, or all of a shared context.

It is bound and run as by ``Attention`` of specialized_decode/runtime/providers.py (vLLM 0.33.0). The cores are those of
tokenspeed_mla and, from 16 rows of plain decode, FlashInfer's trtllm-gen. All need SM100.
"""

import importlib.util
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated import mla as emulated
from validate.paths.emulated.mailbox import SENTINEL
from validate.paths.vllm.adapter import Group, Needs, OverRanks, Prepared, Whole, fewer_rows
from validate.paths.vllm.entries import MLA_DCP, PREPARED_MLA, imported
from validate.paths.vllm.source import Source
from validate.reference.mla import core

LATENTS = K3.q_lora + K3.mla_row  # columns of the packed row before the output gate
# Bounds the number of splits; of a deployment's longest context (runtime/__init__.py, DecodeConfig.max_context).
MAX_CONTEXT = 1 << 20
TILE = 128  # keys that a core takes at a time: it may look up all their pages. vLLM's tables have room for the longest context
NAN = 0x7F  # E4M3


class WholeMla(Whole):
    """One rank with the whole context. Rows that its kernels have and the call lacks are padding, as in a replayed graph."""

    needs = Needs(capability=(10, 0))
    step = ("x", "slots", "table", "lengths")

    def missing(self, call: Call, source: Source) -> str | None:
        """Calls that the specialized path has not, kernels of fewer rows than the call, a core that is not installed."""
        return _missing(call) or ("a shared context needs all ranks" if call.shape["dcp"] > 1 else None)

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.mla.reference`` says what the tensors are."""
        return Prepared(_launch(call, source, slice(LATENTS, None)))


class SharedMla(OverRanks):
    """All ranks under decode context parallelism: each with its own heads' weights and its own part of the cache.

    ``DcpBox`` holds the mailboxes: the query goes to all ranks, partial outputs and their log-sum-exps to their heads'
    owner. A launch stands for one layer, and layers alternate between two parities: here cases do.
    """

    step = ("x", "slots", "table", "lengths", "totals")

    def missing(self, call: Call, source: Source) -> str | None:
        """Contexts that are not shared, and a core that is not installed."""
        return _missing(call) or ("the context is not shared" if call.shape["dcp"] == 1 else None)

    def prepare(self, share: Call, source: Source, group: Group) -> Prepared:
        """``reference.mla.reference`` says what the tensors are; ``ranks.share``, which of them are this rank's."""
        i, rows = share.inputs, share.shape["regime"]
        heads, device = i["w_uk"].shape[0], i["x"].device
        # As dcp_box of runtime/providers.py.
        where = group.process_group, device, group.size, group.rank, heads
        box = imported(source, MLA_DCP, "DcpBox")(*where, interleave=i["interleave"])
        parity = rows // share.shape["q"] % 2
        width = heads * K3.v_head
        first = LATENTS + group.rank * width
        run = _launch(share, source, slice(first, first + width), box, parity)
        mailboxes = [(mailbox.view(torch.int32), word) for mailbox, word in ((box.q, -1), (box.partial, SENTINEL), (box.lse, -1))]

        def launch() -> None:
            run()
            # Its reader arms a mailbox again. One that is not shows as NaN.
            left = [(mailbox != word).any() for mailbox, word in mailboxes]
            share.outputs["out"].masked_fill_(torch.stack(left).any(), float("nan"))

        def arm() -> None:
            for mailbox, word in mailboxes:
                mailbox.fill_(word)
            box.rows.fill_(float("nan"))
            box.rows_lse.fill_(float("nan"))

        # The partial outputs. The other two have another sentinel than the one that is looked for at a hang.
        return Prepared(launch, (box.partial[parity].flatten(2)[:, :rows],), arm)


def _missing(call: Call) -> str | None:
    reason = emulated.SpecializedMla.missing(call)
    if reason or call.shape["tp"] == 1:
        return reason or "the specialized path needs 8 or 16 ranks"
    if fewer_rows(call):
        return fewer_rows(call)
    package = "tokenspeed_mla" if core(call, "specialized") == "tokenspeed" else "flashinfer"
    return None if _installed(package) else f"{package}, which has the attention core, is not installed"


def _installed(package: str) -> bool:
    """Whether it is. Without a GPU it does not matter: a dry run speaks of the machine that the kernels will run on."""
    if not torch.cuda.is_available():
        return True
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a stand-in has its name (source.py)
        return False


def _launch(call: Call, source: Source, gate: slice, box: Any = None, parity: int = 0) -> Callable[[], None]:
    """Runs the stage on a rank whose gate these columns of x are."""
    i, q, live, rows = call.inputs, call.shape["q"], call.shape["batch"], call.shape["regime"]
    heads, device, width = i["w_uk"].shape[0], i["x"].device, i["w_uk"].shape[0] * K3.v_head
    query = torch.empty(rows, heads, K3.mla_row, dtype=torch.uint8, device=device)
    policy = {"max_context": MAX_CONTEXT, "dcp": box, "parity": parity, "queries": (q,)}
    prepared = imported(source, PREPARED_MLA, "PreparedMla")(attention(i), {rows: LATENTS + width}, query, **policy)
    cache = call.buffers["cache"][0].view(torch.uint8)
    prepared.prepare_cache(cache)
    projected = torch.zeros(rows, LATENTS + width, dtype=i["x"].dtype, device=device)
    local = torch.empty(rows, width, dtype=torch.bfloat16, device=device)
    slots = torch.full((rows,), -1, dtype=torch.int64, device=device)
    requests, pages = i["table"].shape
    tile = TILE // call.shape["block"]
    table = torch.zeros(requests, -(-pages // tile) * tile, dtype=torch.int32, device=device)

    def launch() -> None:
        projected[:live, :LATENTS].copy_(i["x"][:, :LATENTS])
        projected[:live, LATENTS:].copy_(i["x"][:, gate])
        slots[:live].copy_(i["slots"][0])
        table[:, :pages].copy_(i["table"])
        query.fill_(NAN)
        local.fill_(float("nan"))
        given = {"cache": cache, "slots": slots, "block_table": table, "lengths": i["lengths"][0]}
        prepared.run(projected, local, **given, totals=i["totals"] if box else None, q=q)
        call.outputs["query"].view(torch.uint8).copy_(query[:live])
        call.outputs["out"].copy_(local[:live])

    return launch


def attention(i: Mapping[str, Any]) -> SimpleNamespace:
    """What ``PreparedMla`` reads of vLLM's attention module, from a call's inputs."""

    def one(value: float) -> Tensor:
        return torch.tensor([value], dtype=torch.float32, device=i["x"].device)

    return SimpleNamespace(
        W_UK_T=i["w_uk"],
        W_UV=i["w_uv"],
        q_a_layernorm=SimpleNamespace(weight=i["q_norm"]),
        kv_a_layernorm=SimpleNamespace(weight=i["kv_norm"]),
        q_b_proj=SimpleNamespace(weight=i["q_b"]),
        _q_scale_inv=one(i["q_scale_inv"]),
        _k_scale_inv=one(i["k_scale_inv"]),
        _q_scale_float=i["q_scale"],
        _k_scale_float=i["k_scale"],
        scale=i["scale"],
        rms_norm_eps=i["eps"],
    )
