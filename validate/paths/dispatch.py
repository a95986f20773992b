"""Which steps run on the specialized path: vLLM's graph choice and ``SpecializedDecode.plan()``, restated.

Read from vLLM 0.33.0: ``v1/worker/gpu/cudagraph_utils.py`` (which CUDA graph a step replays) and
``models/kimi_k3/nvidia/specialized_decode/runtime/decode.py`` (what each graph was captured as). Plans are made at capture; a
step runs what the graph that it replays was planned as, and the default path where it replays none.
"""

from dataclasses import dataclass

from validate.model.decoding import Request

PREPARED = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64)  # rows with prepared kernels (runtime/providers.py BATCHES)


@dataclass(frozen=True)
class Deployment:
    """``q`` rows verify one request's drafts (1 without speculation); ``captured`` are the CUDA graph sizes in rows."""

    q: int = 1
    captured: tuple[int, ...] = (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64)

    @property
    def graphs(self) -> tuple[int, ...]:
        """Rows of the captured decode graphs: sizes rounded up to whole requests."""
        return tuple(sorted({-(-size // self.q) * self.q for size in self.captured}))

    @property
    def prepared(self) -> frozenset[int]:
        """Row counts for which the specialized path has prepared kernels."""
        return frozenset(PREPARED) | {rows for rows in self.graphs if rows <= PREPARED[-1]}


@dataclass(frozen=True)
class Plan:
    """``rows`` is the padded size of the step; ``reason`` says why it runs on the default path, if it does."""

    specialized: bool
    rows: int
    q: int
    reason: str = ""


def plan(requests: tuple[Request, ...], deployment: Deployment) -> Plan:
    """The plan of a step with these live requests. Every predicate depends on counts alone, so all ranks agree.

    Steps with prompt rows or partial drafts replay PIECEWISE graphs, which are keyed by rows alone and so captured on the
    default path; the others replay the smallest decode graph that holds them.
    """
    rows = sum(request.rows for request in requests)
    if any(request.prompt for request in requests):
        return Plan(False, rows, 1, "prompt rows")
    if any(request.rows != deployment.q for request in requests):
        return Plan(False, rows, 1, "partial drafts")
    padded = next((size for size in deployment.graphs if size >= rows), None)
    if padded is None:
        return Plan(False, rows, deployment.q, "more rows than the largest graph")
    return captured_as(padded, deployment)


def captured_as(rows: int, deployment: Deployment) -> Plan:
    """What the decode graph of ``rows`` rows was planned as when it was captured."""
    if rows not in deployment.prepared:
        return Plan(False, rows, deployment.q, "no prepared kernels for this size")
    if rows % deployment.q:
        return Plan(False, rows, deployment.q, "rows are no multiple of q")
    return Plan(True, rows, deployment.q)
