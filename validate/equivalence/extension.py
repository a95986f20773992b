"""Inside vLLM's workers: which engine it is, which steps ran on which path, and which tokens each rank sampled.

vLLM mixes ``Steps`` into its worker class (``worker_extension_cls``) and runs its methods on every rank (``collective_rpc``). Two
kinds of engines are counted:

- a model with ``step_counts()`` and ``reset_step_counts()`` counts for itself: the stand-in on a CPU;
- Kimi K3 in vLLM 0.33.0 on GPUs, where ``SpecializedDecode.plan()`` runs while a CUDA graph is captured and never again. So
  what it planned is kept by graph, and each real step is counted with the graph that it replayed. A step counts as
  specialized if its graph was replayed in fact (``CudaGraphManager.run_fullgraph``) and was planned so.

The names of vLLM's that this relies on are in ``entries.py``, and looked for before anything is wrapped. Nothing of vLLM is
imported before a worker asks for it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from uuid import uuid4

PROCESS = uuid4().hex  # by which two servers behind one address are told apart
NO_PLAN = "its graph was not planned specialized"


@dataclass
class Graphs:
    """What one worker knows. ``planned``: by graph, the rows a request of its plan; ``steps``: by kind of step, how many."""

    planned: dict[Any, int] = field(default_factory=dict)
    steps: Counter[tuple[str, str, int, int, str]] = field(default_factory=Counter)
    capturing: Any = None
    pending: tuple[Any, str, int] | None = None  # of the step that is prepared and has not run: graph, kind, rows a request
    replayed: Any = None

    def planning(self, plan: Callable[..., Any]) -> Callable[..., Any]:
        """``SpecializedDecode.plan``, which notes what the graph that is being captured is planned as."""

        @wraps(plan)
        def noted(*arguments: Any, **named: Any) -> Any:
            step = plan(*arguments, **named)
            if step is not None and self.capturing is not None:
                self.planned[self.capturing] = step.q
            return step

        return noted

    def capture(self, capture: Callable[..., Any]) -> Callable[..., Any]:
        """``CudaGraphManager.capture`` of the model's graphs, which notes the graph at hand; the drafter's are left alone."""

        @wraps(capture)
        def noted(manager: Any, create_forward_fn: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            def create(graph: Any, **how: Any) -> Any:
                self.capturing = None if how.get("warmup") else graph
                return create_forward_fn(graph, **how)

            if type(manager).__name__ != "ModelCudaGraphManager":
                return capture(manager, create_forward_fn, *arguments, **named)
            self.planned.clear()  # a capture for the memory's sake may have gone before
            try:
                return capture(manager, create, *arguments, **named)
            finally:
                self.capturing = None

        return noted

    def replay(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """``CudaGraphManager.run_fullgraph``, which notes the graph."""

        @wraps(run)
        def noted(manager: Any, graph: Any) -> Any:
            if type(manager).__name__ == "ModelCudaGraphManager":
                self.replayed = graph
            return run(manager, graph)

        return noted

    def prepare(self, prepare: Callable[..., Any]) -> Callable[..., Any]:
        """``GPUModelRunner.prepare_inputs``, which is called once in every real step and in no dummy one."""

        @wraps(prepare)
        def noted(scheduled: Any, batch: Any, graph: Any, *arguments: Any, **named: Any) -> Any:
            self.settle()
            rows = {int(n) for n in batch.num_scheduled_tokens}
            self.pending = (graph, kind_of(batch), rows.pop() if len(rows) == 1 else 0)
            return prepare(scheduled, batch, graph, *arguments, **named)

        return noted

    def settle(self) -> None:
        """Counts the step that was prepared last: it has run by now."""
        if self.pending is None:
            return
        graph, kind, q = self.pending
        mode = getattr(graph.cg_mode, "name", str(graph.cg_mode))
        path, reason = "default", ""
        if mode != "FULL":
            reason = "no graph" if mode == "NONE" else f"a {mode} graph"
        elif self.replayed != graph:
            reason = "its graph was not replayed"
        elif self.planned.get(graph) is None:
            reason = NO_PLAN
        elif self.planned[graph] != q:
            reason = f"its graph was planned for {self.planned[graph]} rows a request"
        else:
            path = "specialized"
        self.steps[path, kind, int(graph.num_tokens), q or 1, reason] += 1
        self.pending = self.replayed = None


def kind_of(batch: Any) -> str:
    """Decode, verify, prefill or mixed, from vLLM's ``BatchReqState``."""
    prompts = batch.is_prefilling_np
    if batch.prefill_runs_as_decode_np is not None:  # single prompt tokens over tokens that have a state
        prompts = prompts & ~batch.prefill_runs_as_decode_np
    if prompts.any():
        return "prefill" if prompts.all() else "mixed"
    return "verify" if any(int(n) > 1 for n in batch.num_scheduled_tokens) else "decode"


class Steps:
    """Methods that vLLM's worker gets. Their names begin alike so that they meet no name of vLLM's."""

    model_runner: Any
    vllm_config: Any
    rank: int
    local_rank: int

    def init_worker_extension(self) -> None:
        """Called by vLLM 0.33.0 when the device is ready: before the model is built and graphs are captured."""
        graphs = getattr(self.model_runner, "prepare_inputs", None)
        if graphs is None:  # the older runner
            return
        from vllm.v1.worker.gpu import cudagraph_utils

        from validate.equivalence.entries import WRAPPED
        from validate.paths.vllm.entries import differences
        from validate.paths.vllm.source import opened
        from validate.records.arm import SPECIALIZED

        if moved := differences(opened(None), WRAPPED):
            raise RuntimeError(f"steps cannot be counted: {'; '.join(moved)}")
        seen = Graphs()
        manager = cudagraph_utils.CudaGraphManager
        manager.capture = seen.capture(manager.capture)
        manager.run_fullgraph = seen.replay(manager.run_fullgraph)
        self.model_runner.prepare_inputs = seen.prepare(self.model_runner.prepare_inputs)
        if self.vllm_config.additional_config.get("decode_backend") == SPECIALIZED:
            from vllm.models.kimi_k3.nvidia.specialized_decode.runtime.decode import SpecializedDecode

            SpecializedDecode.plan = seen.planning(SpecializedDecode.plan)
        self._k3_parity_graphs = seen

    def k3_parity_engine(self) -> dict[str, Any]:
        """Which engine this is a worker of (``identity.py``)."""
        from validate.equivalence import identity

        return identity.of_worker(self)

    def k3_parity_reset(self) -> None:
        """Begins to count anew."""
        self._k3_parity_digest = 0
        if not hasattr(self, "_k3_parity_sampling"):
            self._k3_parity_sampling = True
            for name in ("sample", "_sample"):  # of vLLM's newer and older runner
                if sample := getattr(self.model_runner, name, None):
                    setattr(self.model_runner, name, self._k3_parity_watched(sample))
        if graphs := getattr(self, "_k3_parity_graphs", None):
            graphs.settle()
            graphs.steps.clear()
        elif reset := getattr(self.model_runner.get_model(), "reset_step_counts", None):
            reset()

    def k3_parity_steps(self) -> dict[str, Any]:
        """Since the last reset: ``steps`` (None if nothing counts), where they come from, and a digest of all sampled tokens.

        ``process`` is another in every worker that was started.
        """
        steps, source = None, "not counted: the model counts no steps, and the runner is not that of vLLM 0.33.0"
        if graphs := getattr(self, "_k3_parity_graphs", None):
            graphs.settle()
            names = ("path", "kind", "rows", "q", "reason")
            steps = [{**dict(zip(names, step, strict=True)), "count": n} for step, n in sorted(graphs.steps.items())]
            source = "plans of the captured CUDA graphs and the graph that each step replayed"
        elif counted := getattr(self.model_runner.get_model(), "step_counts", None):
            steps, source = counted(), "the model's own count"
        sampled = int(getattr(self, "_k3_parity_digest", 0))
        return {"rank": self.rank, "process": PROCESS, "source": source, "steps": steps, "sampled": sampled}

    def _k3_parity_watched(self, sample: Callable[..., Any]) -> Callable[..., Any]:
        """Folds sampled tokens into a number that depends on their order, on their device: waiting for it would cost time."""

        @wraps(sample)
        def watched(*arguments: Any, **named: Any) -> Any:
            import torch

            made = sample(*arguments, **named)
            output = made[0] if isinstance(made, tuple) else made
            tokens = output.sampled_token_ids.to(torch.int64)
            if (sampled := getattr(output, "num_sampled", None)) is not None:  # what follows them in a row is undefined
                tokens = tokens.where(torch.arange(tokens.shape[1], device=tokens.device) < sampled[:, None], -1)
            tokens = tokens.flatten()
            weights = torch.arange(1, 2 * tokens.numel() + 1, 2, device=tokens.device)
            self._k3_parity_digest = self._k3_parity_digest * 1_000_003 + (tokens * weights).sum() & 0xFFFFFFFFFFFF
            return made

        return watched
