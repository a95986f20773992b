"""Faults of synchronisation, as changes to vLLM's files (0.33.0): what a fix, or a rule of the protocol, is there to prevent."""

from collections.abc import Mapping
from dataclasses import dataclass

from validate.paths.vllm.edits import Change
from validate.paths.vllm.entries import CUTEDSL, DENSE, FRONT, MLA_QUERY, MLA_VALUE, PREPARED_EMBEDDING, SKINNY

PRIMITIVES, MAILBOX = f"{CUTEDSL}/common/primitives.py", f"{CUTEDSL}/common/mailbox.py"
ATTN_RES, KDA, PRODUCER = f"{CUTEDSL}/attn_res/kernel.py", f"{CUTEDSL}/kda/kernel.py", f"{CUTEDSL}/oproj/producer.py"
WAIT, CLUSTER_WAIT = "cute.arch.griddepcontrol_wait()", "cute.arch.cluster_wait()"


@dataclass(frozen=True)
class Fault:
    """``says``: what is wrong then, in a few words."""

    says: str
    change: Change


def _fault(says: str, file: str, **replaced: str) -> Fault:
    return Fault(says, Change(file, {replaced["old"]: replaced["new"]}))


FAULTS: Mapping[str, Fault] = {
    "first-word": _fault(
        "of a fragment's four words the poll looks at the first",
        PRIMITIVES,
        old="    for word in words:\n        ready &= word != Uint32(sentinel)",
        new="    for word in words[:1]:\n        ready &= word != Uint32(sentinel)",
    ),
    "first-slot": _fault(
        "of several fragments the poll waits for the first",
        MAILBOX,
        old="pending = pending | fetch(values, i, base + i * stride)",
        new="pending = (pending | fetch(values, i, base + i * stride)) & Uint32(1)",
    ),
    "slots-not-re-armed": _fault(
        "only the first slot is armed again",
        ATTN_RES,
        old="rearm(base + slot * delta.shape[1] * 7168)",
        new="rearm(base)",
    ),
    "re-armed-early": _fault(
        "the mailbox is armed before it is read, too: what came before the kernel is lost",
        ATTN_RES,
        old="            got = poll(base, delta",
        new="            rearm(base)\n            got = poll(base, delta",
    ),
    "attn_res-entry-wait": _fault(
        "no wait for the predecessor before the delta is read",
        ATTN_RES,
        old=f"            {WAIT}\n            unpack(",
        new="            unpack(",
    ),
    "attn_res-exit-wait": _fault(
        "no wait for the predecessor before the end: whoever waits for this kernel then does not wait for that one",
        ATTN_RES,
        old=f"ids, args[9:])\n        {WAIT}",
        new="ids, args[9:])",
    ),
    "attn_res-cluster-wait": _fault(
        "sums are sent to blocks of the cluster that have not begun", ATTN_RES, old=f"        {CLUSTER_WAIT}\n", new="\n"
    ),
    "attn_res-six": _fault(
        "the barrier of an exchange expects the sums of six blocks, not seven", ATTN_RES, old="28 * count", new="24 * count"
    ),
    "attn_res-exchange-wait": _fault("no wait for the other blocks' sums", ATTN_RES, old="        wait(bar)\n", new="\n"),
    "attn_res-warps": _fault(
        "no barrier between the warps' sums and whoever adds them up",
        ATTN_RES,
        old="wb[warp * 16 + index] = reduced\n        group_barrier(0)",
        new="wb[warp * 16 + index] = reduced",
    ),
    "logits-not-re-armed": _fault("the logits are not armed again", FRONT, old="rearm(cell)", new="pass"),
    "route-exit-wait": _fault(
        "up to 8 rows: no wait for the predecessor",
        FRONT,
        old=f"not self.lean):\n                {WAIT}",
        new="not self.lean):\n                pass",
    ),
    "situ-wait": _fault(
        "no wait for the predecessor before its products are read",
        FRONT,
        old=f"                else:\n                    {WAIT}\n",
        new="                else:\n",
    ),
    "dense-wait": _fault("no wait for the predecessor", DENSE, old=f"        {WAIT}\n", new="\n"),
    "skinny-wait": _fault("no wait for the predecessor", SKINNY, old=WAIT, new="pass"),
    "route-warps": _fault(
        "no barrier between the warps' maxima and whoever compares them",
        FRONT,
        old="found[0] = Int32(0)\n        cute.arch.sync_threads()",
        new="found[0] = Int32(0)",
    ),
    "kda-wait": _fault("no wait for the predecessor", KDA, old=WAIT, new="pass"),
    "kda-main-wait": _fault(
        "no wait for the predecessor where the row is read",
        KDA,
        old=f"nw = norm_weight[thread]\n\n                {WAIT}",
        new="nw = norm_weight[thread]\n",
    ),
    "kda-next-slot": _fault(
        "the next slot's state is read, of the last one a state that nobody wrote",
        KDA,
        old="slot = slots[token]\n",
        new="slot = slots[token] + 1\n",
    ),
    "kda-cluster-wait": _fault("decays are sent to blocks that have not begun", KDA, old=CLUSTER_WAIT, new="pass"),
    "kda-decays-short": _fault(
        "the barrier of the decays expects a quarter of them",
        KDA,
        old="(gate_barrier, True, 512 * tokens)",
        new="(gate_barrier, True, 128 * tokens)",
    ),
    "kda-outputs-short": _fault(
        "the barrier of the outputs expects three quarters of them",
        KDA,
        old="owned = [(barrier, partition == 0, 512)]",
        new="owned = [(barrier, partition == 0, 384)]",
    ),
    "kda-state-wait": _fault(
        "no wait for the state that is copied to shared memory",
        KDA,
        old="                        wait(state_barrier)",
        new="                        pass",
    ),
    "kda-norms": _fault(
        "no barrier between the warps' squares and whoever adds them up",
        KDA,
        old="cute.arch.barrier(barrier_id=1, number_of_threads=128)",
        new="cute.arch.sync_warp()",
    ),
    "query-wait": _fault("no wait for the predecessor", MLA_QUERY, old=f"        {WAIT}\n", new="\n"),
    "query-cluster-wait": _fault(
        "rows are sent to blocks that have not begun", MLA_QUERY, old=f"        {CLUSTER_WAIT}\n", new="\n"
    ),
    "query-short": _fault(
        "the barrier of the gathered rows expects three quarters of them", MLA_QUERY, old="B * 128 * 4", new="B * 96 * 4"
    ),
    "query-gather-wait": _fault(
        "no wait for the gathered rows", MLA_QUERY, old="        wait(barq)\n        latent_col", new="        latent_col"
    ),
    "value-wait": _fault("no wait for the predecessor", MLA_VALUE, old=f"        {WAIT}\n", new="\n"),
    "value-warps": _fault(
        "no barrier between the warps' copies to shared memory and whoever reads them",
        MLA_VALUE,
        old="cp_async_wait_group(0)\n        cute.arch.sync_threads()",
        new="cp_async_wait_group(0)",
    ),
    "value-lanes": _fault(
        "four lanes of each warp pass the block's barrier by",
        MLA_VALUE,
        old="cp_async_wait_group(0)\n        cute.arch.sync_threads()",
        new="cp_async_wait_group(0)\n        if lane < 28:\n            cute.arch.sync_threads()",
    ),
    "producer-wait": _fault("no wait for the predecessor", PRODUCER, old=f"        {WAIT}\n", new="\n"),
    "producer-warps": _fault(
        "no barrier between the warps' parts and whoever adds them up",
        PRODUCER,
        old="        cute.arch.sync_threads()\n        self.publish(args, red, cta, (NG - 1)",
        new="        self.publish(args, red, cta, (NG - 1)",
    ),
    "embedding-early": _fault(
        "launched with leave to start early, which it is not written for", PREPARED_EMBEDDING, old="128, pdl=False)", new="128)"
    ),
    "block-beyond": _fault(
        "the block is saved one place too far: beyond the memory, for the last",
        ATTN_RES,
        old="block_ptr(blocks, token, self.write, col)",
        new="block_ptr(blocks, token, self.write + 1, col)",
    ),
}
