"""Cases of the whole decode step: several steps on the same caches, some of which must fall back to the default path."""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.decoding import BLOCK, Request, Step, caches
from validate.model.dimensions import TINY
from validate.model.draws import Draws
from validate.model.stage_calls import expert_shards
from validate.model.tiny import Model, model
from validate.numerics.case import Case
from validate.paths.dispatch import Deployment
from validate.profiles import Profile

TP = 8
STARTS = (63, 1, 64)  # cached rows of each request before the first step: around the pages' ends, and where each key counts
PAGES = 4  # of a request
AUX_LAYER = 2
DECODE, PROMPT = Request(1), Request(1, prompt=True)


def cases(profile: Profile) -> list[Case]:
    """Plain decoding and verification, where the profile has that TP."""
    if TP not in profile.tp:
        return []
    kinds = ((1, "plain"), *((q, "verify") for q in profile.queries if q == 2))
    return [Case("decode_step", {"tp": TP, "q": q}, kind, seed) for seed in range(profile.seeds) for q, kind in kinds]


def build(case: Case) -> Call:
    """Inputs as ``reference.decode_step`` names them.

    ``plain``: three requests in a graph of four rows; one of them with a prompt's row, so the default path; two requests.
    ``verify``: two requests of two rows, twice, after one and after two tokens were accepted; then a step without drafts.
    """
    draws = Draws("decode_step", case.id)
    q = case.sizes["q"]
    requests = len(STARTS) if q == 1 else 2
    pages = draws.permutation(requests * PAGES) + 1
    table = pages.reshape(requests, PAGES).int()
    deployment = Deployment(q, captured=(1, 2, 4) if q == 1 else (2, 4, 8))
    engine = _Engine(draws, table, q)
    if q == 1:
        steps = [
            engine.step([DECODE] * 3, 4, True),
            engine.step([DECODE, DECODE, PROMPT], 3, False),
            engine.step([DECODE] * 2, 2, True),
        ]
    else:
        verify = Request(q)
        steps = [
            engine.step([verify] * 2, 4, True, accepted=(1, 2)),
            engine.step([verify] * 2, 4, True, accepted=(2, 1)),
            engine.step([DECODE], 1, False, accepted=(1,)),
        ]
    rows = sum(step.live for step in steps)
    weights, shards = _model(case.seed)
    outputs = {
        "logits": ((rows, TINY.vocab), torch.bfloat16),
        "tokens": ((rows, 1), torch.int32),
        "ids": ((len(shards), rows, TINY.top_k), torch.int32),
        "aux": ((rows, TINY.hidden), torch.bfloat16),
        "planned": ((len(steps), 1), torch.float32),
    }
    inputs = {
        "model": weights,
        "experts": shards,
        "tp": TP,
        "deployment": deployment,
        "steps": tuple(steps),
        "table": table,
        "aux_layer": AUX_LAYER,
    }
    return Call("decode_step", case.sizes, inputs, outputs, caches(draws, TINY, TP, q, requests * q + 2, requests * PAGES + 1))


class _Engine:
    """Keeps the requests' lengths from step to step."""

    def __init__(self, draws: Draws, table: Tensor, q: int) -> None:
        self.draws, self.table, self.q = draws, table, q
        self.lengths = list(STARTS)
        self.verified = [0] * len(STARTS)  # rows that the step before added and that are not counted yet

    def step(self, requests: list[Request], rows: int, specialized: bool, accepted: tuple[int, ...] = ()) -> Step:
        """The next step. ``accepted``: of the tokens that the step before verified, how many each request keeps."""
        q, live = requests[0].rows, len(requests)
        total = rows // q
        slots = torch.zeros(total, q, dtype=torch.int32)
        slots[:live] = torch.arange(1, live * self.q + 1, dtype=torch.int32).view(live, self.q)[:, :q]
        lengths = torch.zeros(1, total, dtype=torch.int32)
        cache_slots = torch.full((1, rows), -1, dtype=torch.int64)
        kept = accepted or (1,) * live
        for b in range(live):
            self.lengths[b] += min(self.verified[b], kept[b])
            self.verified[b] = q
            lengths[0, b] = self.lengths[b] + q
            for t in range(q):
                page, offset = divmod(self.lengths[b] + t, BLOCK)
                cache_slots[0, b * q + t] = int(self.table[b, page]) * BLOCK + offset
        tokens = self.draws.integers((rows,), 0, TINY.vocab)
        tokens[live * q :] = 0
        counts = torch.ones(total, dtype=torch.int32)
        counts[:live] = torch.tensor(kept, dtype=torch.int32).clamp(max=q)
        return Step(tuple(requests), q, tokens, slots, counts, cache_slots, lengths, specialized)


@lru_cache(maxsize=1)
def _model(seed: int) -> tuple[Model, dict[int, list]]:
    """The tiny model, and its experts' shards by layer."""
    weights = model(TINY, seed)
    shards = {n: expert_shards(layer, TP) for n, layer in enumerate(weights.layers) if "router" in layer}
    return weights, shards
