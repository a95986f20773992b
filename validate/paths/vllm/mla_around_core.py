"""Latent attention's own kernels of the specialized path, ``MlaQuery`` and ``MlaValue``, around an emulated core.

For GPUs before SM100, which the cores need, and where a core's package is not installed.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import mla as emulated
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Around, Composed, Prepared, Run, other_rows
from validate.paths.vllm.entries import MLA_QUERY, MLA_VALUE, imported
from validate.paths.vllm.mla import LATENTS
from validate.paths.vllm.source import Source


class MlaAroundCore(Composed):
    """The kernels that one GPU runs: the query's up to three rows at TP 8 and five at TP 16 (its tiled form needs SM100)."""

    def missing(self, call: Call, source: Source) -> str | None:
        """Calls that the specialized path has not, other kernels' sizes, and shared contexts."""
        reason = emulated.SpecializedMla.missing(call)
        if reason or call.inputs["w_uk"].shape[0] not in emulated.TILED_FROM or call.shape["tp"] == 1:
            return reason or "the specialized path needs 8 or 16 ranks"
        if call.shape["dcp"] > 1:
            return "context parallelism exchanges by multicast: it needs all ranks"
        return other_rows(call)

    def note(self, call: Call) -> str:
        """The core is always emulated."""
        return "value by vLLM; query and core emulated" if _tiled(call) else "query and value by vLLM; core emulated"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.mla.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.SpecializedMla):
    """The emulated stage with vLLM's kernels in the places of its first and its last part."""

    def query_and_row(self, call: Call, i: emulated.Inputs) -> tuple[Tensor, Tensor]:
        if _tiled(call):
            return super().query_and_row(call, i)
        part = Call(
            "mla",
            call.shape,
            {name: i[name] for name in ("x", "q_norm", "kv_norm", "q_b", "w_uk", "eps")}
            | {"slots": i["slots"][0].long(), "q_scale_inv": _one(i["q_scale_inv"]), "k_scale_inv": _one(i["k_scale_inv"])},
            {},
            {"cache": call.buffers["cache"][0].view(torch.uint8)},
            {"query": call.outputs["query"].view(torch.uint8)},
        )
        self._run(Query(), part)
        return call.outputs["query"], torch.empty(0)

    def insert(self, cache: Tensor, row: Tensor, slots: Tensor) -> None:
        if row.numel():  # else the query's kernel has inserted it
            super().insert(cache, row, slots)

    def finish(self, latent: Tensor, i: emulated.Inputs) -> Tensor:
        out = torch.full((len(latent), i["w_uv"].shape[0] * i["w_uv"].shape[2]), float("nan"), dtype=torch.bfloat16)
        inputs = {"latent": latent, "w_uv": i["w_uv"], "x": i["x"], "lengths": i["totals"]}
        self._run(Value(), Call("mla", self.shape, inputs, {}, {}, {"out": out}))
        return out


class Query:
    """``MlaQuery`` as ``compile_core`` and ``PreparedMla.run`` of mla/prepared.py bind it. SM90 for few rows."""

    step = ("x", "slots")

    def prepare(self, call: Call, source: Source) -> Prepared:
        """Inputs x [rows, packed row], slots, weights and scales; it writes ``cache`` and ``query``, both uint8."""
        host = binding.host(source)
        i, cache, query = call.inputs, call.buffers["cache"], call.outputs["query"]
        weights = [i[name] for name in ("q_norm", "kv_norm", "q_b", "w_uk")]
        layouts = tuple(host.layout(w) for w in (*weights, cache))
        code = _compiled_query(source, len(i["x"]), i["w_uk"].shape[0], i["x"].shape[1], layouts)
        bound = [host.to_cute(w, 16) for w in weights]
        scales = [host.to_cute(i[name], 4) for name in ("q_scale_inv", "k_scale_inv")]
        float32 = binding.cutlass().Float32

        def launch() -> None:
            ends = (host.to_cute(cache), host.to_cute(i["slots"], 8), *scales, float32(i["eps"]), host.to_cute(query))
            code(host.to_cute(i["x"][:, :LATENTS]), *bound, *ends, host.stream(query.device))

        return Prepared(launch)


class Value:
    """``MlaValue`` as ``compile_core`` and ``PreparedMla.run`` of mla/prepared.py bind it. SM90 and later."""

    step = ("latent", "x", "lengths")

    def prepare(self, call: Call, source: Source) -> Prepared:
        """Inputs latent [rows, heads, kv_lora], x with the gate, lengths [requests] and the weight; it writes ``out``."""
        host = binding.host(source)
        i, out = call.inputs, call.outputs["out"]
        code = _compiled_value(source, len(out), call.shape["q"], i["x"].shape[1], host.layout(i["w_uv"]))
        weight = host.to_cute(i["w_uv"], 16)

        def launch() -> None:
            gate = host.to_cute(i["x"][:, LATENTS:])
            lengths = host.to_cute(i["lengths"], 4)
            code(host.to_cute(i["latent"]), weight, gate, lengths, host.to_cute(out), host.stream(out.device))

        return Prepared(launch)


@cache
def _compiled_query(source: Source, rows: int, heads: int, pitch: int, layouts: tuple[Any, ...]) -> Any:
    host = binding.host(source)
    *weights, cache_spec = (host.fake(shape, stride, dtype) for shape, stride, dtype in layouts)
    scale = host.fake((1,), (1,), torch.float32, 4)
    kernel = imported(source, MLA_QUERY, "MlaQuery")(heads, rows, q_b_cp_async=heads == 12 and rows == 1)
    return binding.compiled(
        kernel,
        host.fake((rows, LATENTS), (pitch, 1)),
        *weights,
        cache_spec,
        host.fake((rows,), (1,), torch.int64, 8),
        scale,
        scale,
        binding.cutlass().Float32(0),
        host.fake((rows, heads, 576), None, torch.uint8),
    )


@cache
def _compiled_value(source: Source, rows: int, q: int, pitch: int, weight: tuple[Any, ...]) -> Any:
    host = binding.host(source)
    heads = weight[0][0]
    return binding.compiled(
        imported(source, MLA_VALUE, "MlaValue")(heads, rows, q),
        host.fake((rows, heads, 512)),
        host.fake(*weight),
        host.fake((rows, heads * 128), (pitch, 1)),
        host.fake((rows // q,), (1,), torch.int32, 4),
        host.fake((rows, heads * 128)),
    )


def _tiled(call: Call) -> bool:
    return call.shape["batch"] >= emulated.TILED_FROM[call.inputs["w_uk"].shape[0]]


def _one(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float32)
