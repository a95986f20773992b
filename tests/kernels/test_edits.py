"""Defects edited into copies of vLLM's kernels are found in their compiled code, without a GPU; the originals pass.

Each edit is a fault that shows at run time only now and then, or only under load: a wait or a release of the grid, a
fence, a scope, a sentinel that is not re-armed, an accumulator. Compiled are the variants that hold the edited line.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from validate.kernels import golden, needs
from validate.kernels.compiling import SOURCES, Compiler, Result
from validate.kernels.deployment import Deployment
from validate.paths.vllm.entries import CUTEDSL

ARCH = "sm_103a"
DEPLOYMENTS = (Deployment(8, 1, False, (1, 16, 32, 64)), Deployment(8, 1, True, (1, 16, 32, 64)))
RING = "attn_res/ClusterAttnRes/nb=4,delta=1,write=-1,final=0,slots=1,cap=64,aux=0"
CONSUMER = "o_proj/OprojConsumer/kind=consumer,tp=8,nb=1,has_delta=1,front=1,cap=64,twoshot=0"
DCP = "mla/DcpValue/heads=12,size=8,batch=1,cap=64,pitch=3648,sms=152,q=1"
VALUE = "mla/MlaValue/batch=2,heads=12,pitch=3648,q=1"
WAIT = "cute.arch.griddepcontrol_wait()"


@dataclass(frozen=True)
class Edit:
    """One line of one file, the variant that is compiled, and what must then differ from golden/."""

    name: str
    file: str
    old: str
    new: str
    variant: str
    what: str


KERNELS = (
    Edit(
        "the wait before exit is removed",
        "attn_res/kernel.py",
        f"out_eps, ids, args[9:])\n        {WAIT}",
        "out_eps, ids, args[9:])",
        RING,
        "griddepcontrol.wait",
    ),
    Edit(
        "a mailbox row is not re-armed",
        "attn_res/kernel.py",
        "rearm(base + slot * delta.shape[1] * 7168)",
        "pass",
        RING,
        "st.relaxed.sys.global.v4.u32 of 0x80000000",
    ),
    Edit(
        "a barrier awaits half the bytes",
        "kda/kernel.py",
        "(gate_barrier, True, 512 * tokens)",
        "(gate_barrier, True, 256 * tokens)",
        "kda/KdaSplit/heads=12,gate_mode=1,has_bias=0,tokens=1,batch=1,taps=3",
        "mbarrier.arrive.expect_tx.shared.b64 of 512",
    ),
    Edit(
        "an accumulator is rounded to bf16",
        "mla/value.py",
        "acc = [parts[0, k] + parts[1, k] for k in range(4)]",
        "acc = [Float32(BFloat16(parts[0, k])) + parts[1, k] for k in range(4)]",
        VALUE,
        "cvt.rn.bf16.f32",
    ),
    Edit(
        "the latent is read before the wait",
        "mla/value.py",
        f"        {WAIT}\n        for c in range(tid, 16 * 64, 128):",
        "        for c in range(tid, 16 * 64, 128):",
        VALUE,
        "griddepcontrol.wait",
    ),
    Edit(
        "a fence is removed",
        "oproj/consumer.py",
        "cute.arch.fence_acq_rel_gpu()",
        "pass",
        CONSUMER,
        "fence.acq_rel.gpu",
    ),
    Edit(
        "the tensor cores accumulate in fp16",
        "oproj/producer.py",
        "instruction: Constexpr = 1 << 4 | 1 << 7",
        "instruction: Constexpr = 0 << 4 | 1 << 7",
        "o_proj/OprojUmma/kind=producer,k=1536,batch=32,tp=8,mla=0,cap=64,twoshot=0",
        "tcgen05.mma.cta_group::1.kind::f16 accumulating f32",
    ),
    Edit(
        "tensor memory is handed over without its fence",
        "gemm/splitk.py",
        "        _fence_tcgen05(before=True)\n        cute.arch.mbarrier_arrive(bar_tmem_alloc)",
        "        cute.arch.mbarrier_arrive(bar_tmem_alloc)",
        "input_projection/SplitKGemm/tactic=128.8.2.6,output_dtype=bfloat16",
        "tcgen05.fence::before_thread_sync",
    ),
    Edit(
        "the router's mailbox is not re-armed",
        "moe/front.py",
        "                rearm(cell)\n",
        "",
        "router/RouteSitu/batch=1,shared=768,renorm=1,roles=1.1.0,polled=1,plan=0",
        "st.relaxed.sys.global.v4.u32 of 0x80000000",
    ),
    Edit(
        "a log-sum-exp slot is not re-armed",
        "mla/dcp.py",
        "store_words(source, (Uint32(LSE_SENT),))",
        "pass",
        DCP,
        "st.global.b32 of 0xffffffff",
    ),
    Edit(
        "the dependents are released before the wait",
        "moe/dense.py",
        f"        {WAIT}\n",
        f"        cute.arch.griddepcontrol_launch_dependents()\n        {WAIT}\n",
        "dense_mlp/DenseSitu/hidden=4224,padded=4224",
        "release before the wait",
    ),
    Edit(
        "a kernel waits no more",
        "gemm/ws_gemm.py",
        f"        {WAIT}\n",
        "",
        "router/WsGemm/n=560,split=112,valid=112,batch=1,ks=4,geometry=None",
        "grid dependency",
    ),
    Edit(
        "the tail leaves before its predecessor",
        "moe/tail.py",
        f"release_tmem(tmem, self.columns, warp, 0)\n        {WAIT}",
        "release_tmem(tmem, self.columns, warp, 0)",
        "moe_tail/WaveMoeTail/tp=8,batch=5,mode=publish,trigger=2,early=0,umma=0",
        "griddepcontrol.wait",
    ),
)
# In files that all kernels share.
SHARED = (
    Edit(
        "mailbox stores are narrowed to the GPU's scope",
        "common/primitives.py",
        'store_relaxed = partial(store_words, scope="sys")',
        'store_relaxed = partial(store_words, scope="gpu")',
        DCP,
        "st.relaxed.sys.global.v4.u32",
    ),
    Edit(
        "multicast stores are narrowed to the GPU's scope",
        "common/primitives.py",
        "multimem.st.relaxed.sys.global",
        "multimem.st.relaxed.gpu.global",
        "o_proj/OprojProducer/kind=producer,k=1536,batch=1,tp=8,mla=0,cap=64,twoshot=0",
        "multimem.st.relaxed.sys.global.v4.f32",
    ),
    Edit(
        "a volatile poll is an ordinary load",
        "common/mailbox.py",
        "load_words(pointer, count=4, volatile=True)",
        "load_words(pointer, count=4, mutable=True)",
        RING,
        "ld.volatile.global.v4.b32",
    ),
    Edit(
        "a kernel does not compile",
        "common/embedding.py",
        "values.fill(c.BFloat16(0))",
        "values.full(c.BFloat16(0))",
        "embedding/EmbeddingGather/dtype=int32,shard=20480",
        "error",
    ),
    Edit(
        "the compiler dies",
        "common/prefetch.py",
        "        options = dict(pdl=False",
        "        __import__('os')._exit(9)\n        options = dict(pdl=False",
        "prefetch/L2Prefetch/count=1,grid=8,carveout=100",
        "error",
    ),
)


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, object]]:
    if needs.missing():
        pytest.skip(f"the compiler is not installed: {', '.join(needs.missing())}")
    return golden.read(golden.path(ARCH)).variants


def copied(source: Path, target: Path, edits: Iterable[Edit] = ()) -> Path:
    for pattern in SOURCES:
        for file in source.glob(pattern):
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    shutil.copyfile(source / "vllm/_version.py", target / "vllm/_version.py")
    math = Path("vllm/utils/math_utils.py")
    (target / math.parent).mkdir(parents=True)
    shutil.copyfile(source / math, target / math)
    for edit in edits:
        file = target / CUTEDSL / edit.file
        text = file.read_text(encoding="utf-8")
        assert edit.old in text, f"{edit.name}: {edit.file} of this vLLM has no such line"
        file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return target


def compiled(root: Path, edits: Iterable[Edit]) -> dict[str, Result]:
    with Compiler(root, ARCH, DEPLOYMENTS, 1) as compiler:
        return dict(compiler.compile(list(dict.fromkeys(edit.variant for edit in edits))))


@pytest.mark.parametrize("edits", [KERNELS, SHARED], ids=["kernels", "shared"])
def test_every_edit_is_found(
    vllm_source: Path, tmp_path: Path, recorded: dict[str, dict[str, object]], edits: tuple[Edit, ...]
) -> None:
    results = compiled(copied(vllm_source, tmp_path, edits), edits)
    failed = {(name, "error") for name, result in results.items() if "error" in result}
    found = failed | {(d.variant, d.what) for d in golden.compare(recorded, results)}
    assert [edit.name for edit in edits if (edit.variant, edit.what) not in found] == []


def test_the_original_passes(vllm_source: Path, recorded: dict[str, dict[str, object]]) -> None:
    results = compiled(vllm_source, [*KERNELS, *SHARED])
    assert not [name for name, result in results.items() if "error" in result]
    assert golden.compare(recorded, results) == []
