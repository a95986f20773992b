"""``vllm-default`` and ``vllm-specialized``: vLLM 0.33.0's own kernels.

Nobody here wrote them. On a GPU each runs what that GPU can; on a CPU the default path's Triton kernels are interpreted, and
its torch operators torch's own. Where they pass, the reference and its rounding points are those of vLLM.
"""

import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from validate.errors import InputError
from validate.model.call import Call
from validate.paths import group
from validate.paths.group import Group
from validate.paths.vllm import (
    attn_res,
    default_mla,
    default_o_proj,
    default_router,
    dense_mlp,
    draft_context,
    embedding,
    entries,
    experts,
    final_norm,
    input_projection,
    kda,
    latent_down,
    logits,
    mla,
    mla_around_core,
    mlp,
    moe_tail,
    o_proj,
    ranks,
    recover_ssm,
    router,
    shared_experts,
    shared_small_batch,
)
from validate.paths.vllm.absent import Absent
from validate.paths.vllm.adapter import Composed, OverRanks, Part, Prepared, Whole
from validate.paths.vllm.source import Source
from validate.records.model import VllmFiles
from validate.stages import DEFAULT_ONLY

AnyAdapter = Whole | Composed | OverRanks
# By path and stage. Of several adapters the first that the GPU's capability allows runs what it can.
ADAPTERS: Mapping[str, Mapping[str, tuple[AnyAdapter, ...]]] = {
    "default": {
        "embedding": (embedding.DefaultEmbedding(),),
        "attn_res": (attn_res.DefaultAttnRes(),),
        "input_projection": (input_projection.DefaultProjection(),),
        "kda": (kda.DefaultKda(),),
        "recover_ssm": (recover_ssm.CuteRecoverSsm(), recover_ssm.TritonRecoverSsm()),
        "mla": (default_mla.DefaultMla(),),
        "o_proj": (default_o_proj.DefaultOproj(),),
        "router": (default_router.DefaultRouter(),),
        "latent_down": (latent_down.DefaultLatentDown(),),
        "experts": (Absent("trtllm-gen's MoE kernels are FlashInfer's, compiled"),),
        "shared_experts": (mlp.DefaultMlp(),),
        "moe_tail": (Absent("LatentMoETail needs all ranks' symmetric memory: no adapter yet"),),
        "dense_mlp": (mlp.DefaultMlp(),),
        "final_norm": (final_norm.DefaultFinalNorm(),),
        "logits": (logits.DefaultLogits(),),
        "draft_context": (draft_context.DraftContext(),),
    },
    "specialized": {
        "embedding": (embedding.EmbeddingOverRanks(), embedding.SpecializedEmbedding()),
        "attn_res": (attn_res.SpecializedAttnRes(), attn_res.FusedAttnRes()),
        "input_projection": (input_projection.SpecializedProjection(), input_projection.SpecializedSkinny()),
        "kda": (kda.SpecializedKda(),),
        "recover_ssm": (Absent(DEFAULT_ONLY["recover_ssm"]),),
        "mla": (mla.WholeMla(), mla.SharedMla(), mla_around_core.MlaAroundCore()),
        "experts": (experts.SpecializedExperts(),),
        "o_proj": (o_proj.SpecializedOprojOverRanks(), o_proj.SpecializedTcgenOproj(), o_proj.SpecializedOproj()),
        "router": (router.RouterOverRanks(), router.SpecializedRouter()),
        "latent_down": (latent_down.LatentDownOverRanks(),),
        "shared_experts": (
            shared_experts.SpecializedSharedExperts(),
            shared_small_batch.SmallSharedExperts(),
            shared_experts.SpecializedSharedSitu(),
        ),
        "moe_tail": (moe_tail.SpecializedMoeTail(),),
        "dense_mlp": (dense_mlp.SpecializedDenseMlp(), dense_mlp.SpecializedDenseSitu()),
        "final_norm": (final_norm.SpecializedFinalNorm(),),
        "logits": (logits.DefaultLogits(),),  # both paths run the same
        "draft_context": (draft_context.DraftContext(),),  # likewise
    },
}
BY_TORCHRUN = "torchrun starts it:"  # how the reason begins why what runs over several ranks is missing without it
ENTRIES = {"default": entries.DEFAULT, "specialized": entries.SPECIALIZED}


def check(paths: Iterable[str], source: Source) -> None:
    """Refuses files whose entry points are not those that the paths' adapters call: InputError, one line a difference."""
    moved = entries.differences(source, [entry for path in paths for stage in ENTRIES[path].values() for entry in stage])
    if moved:
        raise InputError("\n".join(["vLLM's entry points are not those that the adapters call:", *moved]))


def load(path: str, source: Source) -> int:
    """Imports the modules that a path's adapters call and counts them. InputError if one does not load."""
    files = dict.fromkeys(entry.file for stage in ENTRIES[path].values() for entry in stage)
    for file in files:
        source.module(entries.module_of(file))
    return len(files)


def choose(path: str, call: Call, source: Source, capability: tuple[int, int] | None, gpus: int) -> AnyAdapter | str:
    """The adapter that runs a call on so many GPUs of this capability (None: interpreted), or why none does."""
    lacking: list[str] = []
    missing: list[str] = []
    for adapter in ADAPTERS[path].get(call.stage, ()):
        reason = adapter.needs.lacking(capability) if capability else None
        if reason is None and ranks_of(adapter, call) > gpus:
            reason = f"needs {ranks_of(adapter, call)} GPUs, there {'are' if gpus > 1 else 'is'} {gpus}"
        if reason is not None:
            lacking.append(reason)
            continue
        reason = adapter.missing(call, source)
        if reason is None:
            return adapter
        missing.append(reason)
    return next(iter(missing + lacking[::-1]), "no adapter runs its kernels here")


def ranks_of(adapter: AnyAdapter, call: Call) -> int:
    """How many processes run a call together, one a GPU."""
    return adapter.needs.ranks or call.shape["tp"]


class Vllm:
    """One path's stages by vLLM's kernels: on this process's GPU, or interpreted if ``source`` is."""

    def __init__(self, path: str, source: Source, gpus: int = 1) -> None:
        """``gpus``: those of the profile, on all nodes."""
        self.path, self.name, self._gpus = path, f"vllm-{path}", gpus
        self._source, self._group = source, group.current()
        # A kernel that is loaded while another one polls waits for it, and so for ever. Read when CUDA starts.
        os.environ["CUDA_MODULE_LOADING"] = "EAGER"
        check([path], source)
        load(path, source)  # what does not load is refused before anything is judged
        self._gpu = None
        if not source.interpreted:
            from validate.paths.vllm.device import Gpu

            self._gpu = Gpu()

    def files(self) -> VllmFiles:
        """Which vLLM this is."""
        version, commit = self._source.version()
        return VllmFiles(version=version, commit=commit, files=self._source.digests())

    def capability(self) -> tuple[int, int] | None:
        """The compute capability of this process's GPU; None if interpreted."""
        return self._gpu.capability if self._gpu else None

    def missing(self, call: Call) -> str | None:
        """Stages without an adapter, GPUs that are too old for it, and calls that it cannot run."""
        chosen = self._chosen(call)
        if isinstance(chosen, str):
            return chosen
        ranks = ranks_of(chosen, call)
        started = self._group.size if self._group else 1
        return None if ranks in (1, started) else f"{BY_TORCHRUN} {ranks} ranks, one a GPU"

    def ranks(self, call: Call) -> int:
        """One, or all ranks of the call's TP group."""
        return ranks_of(self._adapter(call), call)

    def note(self, call: Call) -> str | None:
        """What of a stage is emulated, or not the kernel that a deployment runs."""
        return self._adapter(call).note(call)

    def run(self, call: Call) -> None:
        """Runs the stage. What overflows in the interpreter does so silently, as on a GPU."""
        if self._gpu is not None:
            self._on_gpu(call, self._gpu.run)
            return
        adapter = self._adapter(call)
        with np.errstate(all="ignore"):
            if isinstance(adapter, Composed):
                adapter.compose(call, self._here)
            else:
                assert isinstance(adapter, Whole)
                self._here(adapter, call)

    def again(self, call: Call) -> None:
        """On a GPU the replay of a CUDA graph, with late mailboxes."""
        if self._gpu is None:
            self.run(call)
        else:
            self._on_gpu(call, self._gpu.replay)

    def _here(self, part: Part, call: Call) -> None:
        part.prepare(call, self._source).launch()

    def _on_gpu(self, call: Call, way: Callable[..., None]) -> None:
        adapter = self._adapter(call)
        if isinstance(adapter, Composed):
            adapter.compose(call, lambda part, of: way(part, of, self._source))
        elif isinstance(adapter, Whole):
            way(adapter, call, self._source)
        else:
            assert self._group is not None
            mine = ranks.share(call, self._group.rank)
            way(_OnRank(adapter, self._group), mine, self._source, self._group)
            ranks.merge(call, mine, self._group.gather)

    def _chosen(self, call: Call) -> AnyAdapter | str:
        return choose(self.path, call, self._source, self.capability(), self._gpus)

    def _adapter(self, call: Call) -> AnyAdapter:
        chosen = self._chosen(call)
        assert not isinstance(chosen, str)
        return chosen


class _OnRank:
    """Kernels over ranks as the part that is this process's."""

    def __init__(self, adapter: OverRanks, group: Group) -> None:
        self._adapter, self._group = adapter, group
        self.step = adapter.step

    def prepare(self, call: Call, source: Source) -> Prepared:
        return self._adapter.prepare(call, source, self._group)
