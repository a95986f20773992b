"""Steps of Kimi K3 on GPUs, from doubles of vLLM's runner: which graph was planned how, and which was replayed."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from validate.equivalence import attestation
from validate.equivalence.extension import NO_PLAN, Graphs, Steps, kind_of
from validate.errors import InputError


@dataclass(frozen=True)
class Graph:
    """Of vLLM's ``BatchExecutionDescriptor``."""

    num_tokens: int
    mode: str = "FULL"

    @property
    def cg_mode(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.mode)


class ModelCudaGraphManager:
    """Captures its graphs, and replays them."""

    def __init__(self, graphs: list[Graph]) -> None:
        self.graphs = graphs

    def capture(self, create_forward_fn: Any) -> None:
        for graph in self.graphs:
            for warmup in (True, False):
                create_forward_fn(graph, warmup=warmup)(graph)

    def run_fullgraph(self, graph: Graph) -> None:
        pass


def batch(rows: list[int], prompts: int = 0) -> SimpleNamespace:
    prefilling = np.arange(len(rows)) < prompts
    as_decode = np.zeros(len(rows), bool) if prompts else None
    return SimpleNamespace(num_scheduled_tokens=rows, is_prefilling_np=prefilling, prefill_runs_as_decode_np=as_decode)


class Engine:
    """``plan`` gives the rows a request of what is planned specialized, by rows."""

    def __init__(self, plan: dict[int, int], graphs: list[Graph]) -> None:
        self.seen = Graphs()
        planned = self.seen.planning(lambda rows, _: SimpleNamespace(q=plan[rows]) if rows in plan else None)
        self.capture = self.seen.capture(ModelCudaGraphManager.capture)
        self.replay = self.seen.replay(ModelCudaGraphManager.run_fullgraph)
        self.prepare = self.seen.prepare(lambda *_: None)
        self.manager = ModelCudaGraphManager(graphs)
        self.forward = lambda graph, warmup: lambda graph: planned(graph.num_tokens, None)
        self.capture(self.manager, self.forward)

    def step(self, graph: Graph, rows: list[int], prompts: int = 0, *, replays: bool = True) -> None:
        self.prepare(None, batch(rows, prompts), graph)
        if replays and graph.mode == "FULL":
            self.replay(self.manager, graph)

    def counts(self) -> dict[tuple[str, str, int, int, str], int]:
        self.seen.settle()
        return dict(self.seen.steps)


def test_a_prompts_single_token_over_others_is_a_decoding_row() -> None:
    given = batch([1, 1, 1], prompts=2)
    assert kind_of(given) == "mixed"
    given.prefill_runs_as_decode_np = np.array([True, False, False])
    assert kind_of(given) == "mixed"
    given.prefill_runs_as_decode_np = np.array([True, True, False])
    assert kind_of(given) == "decode"


def test_a_step_is_specialized_if_the_graph_that_it_replays_was_planned_so() -> None:
    graphs = [Graph(2), Graph(24), Graph(8, "PIECEWISE")]
    engine = Engine({2: 1}, graphs)
    engine.step(graphs[0], [1, 1])
    engine.step(graphs[0], [1])  # padded
    engine.step(graphs[1], [1] * 20)
    engine.step(graphs[2], [1, 5], prompts=1)
    engine.step(Graph(300, "NONE"), [300], prompts=1)
    assert engine.counts() == {
        ("specialized", "decode", 2, 1, ""): 2,
        ("default", "decode", 24, 1, NO_PLAN): 1,
        ("default", "mixed", 8, 1, "a PIECEWISE graph"): 1,
        ("default", "prefill", 300, 300, "no graph"): 1,
    }


def test_verify_steps_are_told_from_decode_steps() -> None:
    engine = Engine({8: 4}, [Graph(8)])
    engine.step(Graph(8), [4, 4])
    engine.step(Graph(8), [1, 1])  # cannot be; a plan for other rows is not believed
    assert engine.counts() == {
        ("specialized", "verify", 8, 4, ""): 1,
        ("default", "decode", 8, 1, "its graph was planned for 4 rows a request"): 1,
    }


def test_a_plan_alone_is_not_believed() -> None:
    engine = Engine({2: 1}, [Graph(2)])
    engine.step(Graph(2), [1, 1], replays=False)
    assert engine.counts() == {("default", "decode", 2, 1, "its graph was not replayed"): 1}


def test_what_is_planned_outside_of_a_capture_is_no_plan() -> None:
    engine = Engine({}, [Graph(2)])
    engine.seen.planning(lambda: SimpleNamespace(q=1))()
    engine.step(Graph(2), [1, 1])
    assert engine.counts() == {("default", "decode", 2, 1, NO_PLAN): 1}


def test_a_plan_of_the_warm_up_is_no_plan() -> None:
    engine = Engine({}, [])
    planned = engine.seen.planning(lambda: SimpleNamespace(q=1))
    warm = ModelCudaGraphManager([Graph(2)])
    engine.capture(warm, lambda graph, warmup: lambda graph: planned() if warmup else None)
    engine.step(Graph(2), [1, 1])
    assert engine.counts() == {("default", "decode", 2, 1, NO_PLAN): 1}


def test_the_drafters_graphs_are_left_alone() -> None:
    class DraftManager(ModelCudaGraphManager):
        pass

    engine = Engine({2: 1}, [Graph(2)])
    engine.capture(DraftManager([Graph(4)]), engine.forward)
    engine.prepare(None, batch([1, 1]), Graph(2))
    engine.replay(DraftManager([]), Graph(2))
    assert engine.counts() == {("default", "decode", 2, 1, "its graph was not replayed"): 1}
    assert engine.seen.planned == {Graph(2): 1}


class Worker(Steps):
    def __init__(self, tokens: list[list[int]], sampled: list[int] | None = None) -> None:
        import torch

        self.rank = 0
        output = SimpleNamespace(sampled_token_ids=torch.tensor(tokens))
        if sampled:
            output.num_sampled = torch.tensor(sampled)
        model = SimpleNamespace(step_counts=lambda: [{"path": "specialized"}], reset_step_counts=lambda: None)
        self.model_runner = SimpleNamespace(get_model=lambda: model, sample=lambda: output)


def digest(worker: Worker, steps: int = 1) -> int:
    worker.k3_parity_reset()
    for _ in range(steps):
        worker.model_runner.sample()
    sampled = worker.k3_parity_steps()["sampled"]
    assert isinstance(sampled, int)
    return sampled


def test_sampled_tokens_and_their_order_are_digested() -> None:
    same = digest(Worker([[5], [7]]))
    assert same == digest(Worker([[5], [7]]))
    assert len({same, digest(Worker([[7], [5]])), digest(Worker([[5], [8]])), digest(Worker([[5], [7]]), 2), 0}) == 5
    worker = Worker([[5], [7]])
    assert digest(worker) == digest(worker)  # counted anew, and watched once


def test_what_follows_the_accepted_tokens_is_undefined() -> None:
    first, second = Worker([[5, 6, 1], [7, 2, 3]], [2, 1]), Worker([[5, 6, 9], [7, 8, 4]], [2, 1])
    assert digest(first) == digest(second)
    assert digest(first) != digest(Worker([[5, 6, 1], [7, 2, 3]], [2, 2]))


def test_a_model_counts_for_itself() -> None:
    worker = Worker([[1]])
    worker.k3_parity_reset()
    assert worker.k3_parity_steps()["steps"] == [{"path": "specialized"}]
    del worker.model_runner.get_model().step_counts
    assert worker.k3_parity_steps()["steps"] is None


STEP = {"path": "default", "kind": "decode", "rows": 1, "q": 1, "reason": "", "count": 1}


@pytest.mark.parametrize("said", [[], [{"steps": [STEP]}], [{"source": "", "steps": [STEP | {"path": "x"}], "sampled": 0}], [3]])
def test_counts_that_cannot_be_read(said: list[Any]) -> None:
    with pytest.raises(InputError, match="no step counts that can be read"):
        attestation.counted(said)


def test_ranks_that_ran_other_steps_do_not_agree() -> None:
    one, two = ({"source": "", "steps": [STEP | {"count": n}], "sampled": 0} for n in (1, 2))
    assert attestation.counted([one]).ranks_agree is None
    assert attestation.counted([one, one]).ranks_agree is True
    assert attestation.counted([one, two]).ranks_agree is False
    assert attestation.counted([one, one | {"sampled": 1}]).ranks_agree is False
