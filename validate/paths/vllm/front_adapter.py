"""The stages of the MoE front by vLLM's kernels, over the ranks of a TP group."""

from validate.model.call import Call
from validate.paths.emulated.front import uses_small_batch
from validate.paths.vllm.adapter import Group, OverRanks, Prepared, fewer_rows
from validate.paths.vllm.front import Front, Layer
from validate.paths.vllm.shared_front import SharedFront
from validate.paths.vllm.small_front import SmallFront
from validate.paths.vllm.source import Source


class FrontOverRanks(OverRanks):
    """A stage that is half of what the front computes: the front runs as a whole, and this half is judged."""

    step = ("x",)

    def layer(self, call: Call) -> Layer:
        """Both weights, of which the call gives one. The other must not matter: it is that one with its signs changed."""
        raise NotImplementedError

    def read(self, front: Front, call: Call) -> None:
        """Fills this rank's outputs, [1, rows, ...]."""
        raise NotImplementedError

    def missing(self, call: Call, source: Source) -> str | None:
        """Other TP sizes, and more rows than a kernel was prepared for."""
        if call.shape["tp"] not in (8, 16):
            return "the specialized path needs 8 or 16 ranks"
        return fewer_rows(call)

    def prepare(self, share: Call, source: Source, group: Group) -> Prepared:
        """``reference.router.reference`` and ``reference.latent_down.reference`` say what the tensors are."""
        small = uses_small_batch(group.size, share.shape["regime"])
        front: Front = (SmallFront if small else SharedFront)(share, source, group, self.layer(share))

        def collect() -> None:
            front.collect()
            self.read(front, share)

        return Prepared(front.launch, front.mailboxes, front.arm, collect)
