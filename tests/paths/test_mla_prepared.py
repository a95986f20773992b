"""The adapters of ``PreparedMla``: what a rank is given and what becomes of its results, with kernels that only copy."""

from types import SimpleNamespace

import pytest
import torch

from validate.model.call import Call
from validate.numerics import judge
from validate.numerics.case import Case
from validate.paths.vllm import mla, ranks

HEADS, LATENTS = 6, mla.LATENTS


class CopyingMla:
    """Its output is the gate; its query, the first weights of each head; so both name the rank that made them."""

    def __init__(self, attention, pitches, query_scratch, *, max_context, dcp, parity, queries):
        self.attention, self.query, self.box, self.parity = attention, query_scratch, dcp, parity
        assert list(pitches.items()) == [(len(query_scratch), LATENTS + HEADS * 128)]
        self.seen: list[dict] = []
        made.append(self)

    def prepare_cache(self, cache):
        assert (cache.dtype, cache.dim()) == (torch.uint8, 3)

    def run(self, projected, out, **given):
        self.seen.append({"projected": projected.clone(), **given})
        out.copy_(projected[:, LATENTS:])
        words = self.attention.W_UK_T[:, 0].contiguous().view(torch.uint8)[:, :576]
        self.query.copy_(torch.cat([words, words], 1)[:, :576].expand_as(self.query))


class Box:
    """As ``DcpBox``, of the same shapes."""

    def __init__(self, group, device, size, rank, heads, cap=64, interleave=1):
        self.q = torch.zeros(2, cap, size * heads, 576, dtype=torch.uint8)
        self.partial = torch.zeros(2, size, cap, heads, 512, dtype=torch.bfloat16)
        self.lse = torch.zeros(2, size, cap, heads)
        self.rows = torch.zeros(cap, 1, size * heads, 512, dtype=torch.bfloat16)
        self.rows_lse = torch.zeros(cap, 1, size * heads)


made: list[CopyingMla] = []


@pytest.fixture(autouse=True)
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(mla, "imported", lambda source, file, name: {"PreparedMla": CopyingMla, "DcpBox": Box}[name])


def call(batch: int, q: int = 1, regime: int | None = None, dcp: int = 1, block: int = 64) -> Call:
    sizes = {"tp": 16, "batch": batch, "q": q, "regime": regime or batch, "dcp": dcp, "interleave": 1, "block": block}
    return judge.build(Case("mla", sizes, "trained", 0)).fresh()


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)


def shared(whole: Call, rank: int) -> tuple[Call, object]:
    share = ranks.share(whole, rank)
    group = SimpleNamespace(rank=rank, size=16, process_group=None)
    prepared = mla.SharedMla().prepare(share, None, group)
    prepared.arm()
    prepared.launch()
    return share, prepared


def test_each_rank_has_its_own_heads_and_they_return_to_their_places() -> None:
    whole = call(2, dcp=16)
    shares = [shared(whole, rank)[0] for rank in range(16)]
    names = iter([*whole.outputs, *whole.buffers])
    ranks.merge(whole, shares[0], lambda _, names=names: [share.written(n) for n in [next(names)] for share in shares])
    assert torch.equal(whole.outputs["out"], whole.inputs["x"][:, LATENTS:])
    words = whole.inputs["w_uk"][:, 0].contiguous().view(torch.uint8)[:, :576]
    assert torch.equal(bits(whole.outputs["query"][0]), words)
    assert torch.equal(bits(whole.outputs["query"][1]), words)


def test_each_rank_sees_its_own_part_of_the_cache_and_all_latents() -> None:
    whole = call(8, q=4, dcp=16)
    shared(whole, 3)
    seen = made[0].seen[0]
    assert torch.equal(seen["projected"][:, :LATENTS], whole.inputs["x"][:, :LATENTS])
    assert torch.equal(seen["cache"], bits(whole.buffers["cache"][3]))
    for name, wanted in (("slots", whole.inputs["slots"][3]), ("lengths", whole.inputs["lengths"][3])):
        assert torch.equal(seen[name], wanted)
    assert torch.equal(seen["totals"], whole.inputs["totals"])


def test_cases_use_both_parities() -> None:
    for batch in (1, 2):
        shared(call(batch, dcp=16), 0)
    assert [one.parity for one in made] == [1, 0]


@pytest.mark.parametrize("name", ["q", "partial", "lse"])
def test_a_mailbox_that_is_not_armed_again_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank after it has waited for one word of the mailbox, and not armed it."""
    whole = call(1, dcp=16)
    share, prepared = shared(whole, 0)
    assert bool(share.outputs["out"].isfinite().all())
    getattr(made[0].box, name).view(torch.int32).view(-1)[-1] = 5
    prepared.launch()
    assert bool(share.outputs["out"].isnan().all())
    prepared.arm()
    prepared.launch()
    assert bool(share.outputs["out"].isfinite().all())


def test_rows_beyond_the_calls_are_padding() -> None:
    small = call(3, regime=8)
    mla.WholeMla().prepare(small, None).launch()
    seen = made[0].seen[0]
    assert seen["projected"].shape[0] == 8
    assert seen["projected"][3:].count_nonzero() == 0
    assert seen["slots"].tolist() == [*small.inputs["slots"][0].tolist(), *[-1] * 5]
    assert len(seen["lengths"]) == 3  # vLLM makes empty requests of the others
    assert torch.equal(small.outputs["out"], small.inputs["x"][:, LATENTS:])


@pytest.mark.parametrize(("block", "tile"), [(64, 2), (32, 4)])
def test_tables_hold_whole_tiles(block: int, tile: int) -> None:
    small = call(5, block=block)
    table = small.inputs["table"]
    mla.WholeMla().prepare(small, None).launch()
    given = made[0].seen[0]["block_table"]
    assert given.shape[1] % tile == 0
    assert torch.equal(given[:, : table.shape[1]], table)
    assert given[:, table.shape[1] :].count_nonzero() == 0


def test_what_a_launch_reads_is_that_of_the_launch() -> None:
    small = call(4)
    prepared = mla.WholeMla().prepare(small, None)
    for name in ("x", "slots", "table", "lengths"):
        small.inputs[name].zero_()
    prepared.launch()
    seen = made[0].seen[0]
    for name, value in (("projected", 0), ("slots", 0), ("block_table", 0), ("lengths", 0)):
        assert bool((seen[name] == value).all()), name


@pytest.mark.parametrize(
    ("sizes", "package"),
    [({"batch": 16}, "flashinfer"), ({"batch": 16, "q": 4}, "tokenspeed_mla"), ({"batch": 2}, "tokenspeed_mla")],
)
def test_the_package_of_the_core_is_named_where_it_lacks(sizes: dict, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(mla.importlib.util, "find_spec", lambda name: None if name == package else object())
    assert mla.WholeMla().missing(call(**sizes), None) == f"{package}, which has the attention core, is not installed"
    monkeypatch.setattr(mla.importlib.util, "find_spec", lambda name: object())
    assert mla.WholeMla().missing(call(**sizes), None) is None
    monkeypatch.setattr(mla.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert mla.WholeMla().missing(call(**sizes), None) is None, "a dry run speaks of another machine"


def test_kernels_of_fewer_rows_than_the_call_do_not_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mla.importlib.util, "find_spec", lambda name: object())
    assert mla.WholeMla().missing(call(6, regime=5), None) == "a kernel runs no more rows than it is prepared for"
    assert mla.WholeMla().missing(call(1, dcp=16), None) == "a shared context needs all ranks"
    assert mla.SharedMla().missing(call(1), None) == "the context is not shared"
