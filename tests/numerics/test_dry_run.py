"""What a dry run says: every case is placed, each rank's tensors are sized, and the commands select what they say."""

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from validate import profiles
from validate.errors import InputError
from validate.model.call import Call
from validate.numerics import dry_run, judge, selection, subjects
from validate.numerics.case import Case
from validate.numerics.footprint import MIB, PARTS, footprint, ranks_of
from validate.paths.emulated import Emulated
from validate.records.model import Arguments, VllmFiles

GB300 = ["gb300-tp8", "gb300-tp16"]
EMULATED = profiles.load("cpu")


def case_of(stage: str, tp: int = 16, **sizes: int) -> Case:
    """The profile's first case of a stage with these sizes."""
    cases = judge.cases(profiles.load(f"gb300-tp{tp}"), [stage])
    return next(case for case in cases if sizes.items() <= case.sizes.items())


def test_a_rank_of_the_o_projection_holds_its_rows_its_shard_and_the_whole_mailbox() -> None:
    """By hand: 64 rows of 12288 / 16 channels, weight [7168, 768], mailbox [2, 16, 66, 7168], gather [2, 66, 7168]."""
    found = footprint(judge.build(case_of("o_proj", batch=64)))
    elements = 64 * 768 + 7168 * 768 + 2 * 16 * 66 * 7168 + 2 * 66 * 7168 + 64 * 7168 + 64 * 7168
    assert found.ranks == 16
    assert found.mib == 2 * elements / MIB
    assert str(found.largest) == "mailbox bfloat16 2x16x66x7168"


def test_packed_weights_are_counted_by_their_bytes() -> None:
    """24 experts of one rank: W13 [384, 3584] and W2 [3584, 192] of half a byte an element, and a scale for each 32."""
    found = footprint(judge.build(case_of("experts", batch=1)))
    weights = 24 * (384 * 3584 + 3584 * 192)
    packed = sum(piece.bytes for piece in found.pieces if piece.name.startswith("w"))
    assert (found.ranks, packed) == (1, weights // 2 + weights // 32)


@pytest.mark.parametrize("stage", [stage for stage in PARTS if stage != "mla"])
def test_what_is_said_to_be_in_parts_is_there(stage: str) -> None:
    pieces = {piece.name: piece.shape for piece in footprint(judge.build(case_of(stage, batch=1))).pieces}
    assert set(PARTS[stage]) <= set(pieces)


def test_a_shared_context_has_a_shard_on_each_rank() -> None:
    call = judge.build(case_of("mla", dcp=16))
    pieces = {piece.name: piece.shape for piece in footprint(call).pieces}
    assert pieces["cache"] == (1, *call.buffers["cache"].shape[1:])
    assert call.buffers["cache"].shape[0] == 16


def test_parts_that_are_not_equal_are_refused() -> None:
    call = Call("latent_down", {"tp": 16}, {}, {"out": ((15, 1, 8), torch.bfloat16)})
    with pytest.raises(ValueError, match="no equal parts for 16 ranks"):
        footprint(call)


@pytest.mark.parametrize("name", GB300)
def test_ranks_fit_the_machine_and_are_one_or_the_tp_group(name: str) -> None:
    profile = profiles.load(name)
    ranks = {ranks_of(case.stage, case.sizes) for case in judge.cases(profile)}
    assert ranks == {1, profile.tp[0]}
    assert profile.gpus == profile.tp[0]


@pytest.mark.parametrize(("name", "nodes"), [("gb300-tp8", 2), ("gb300-tp16", 4)])
def test_the_commands_start_one_gpus_cases_then_the_ranks_then_ask_for_the_verdict(name: str, nodes: int) -> None:
    profile = profiles.load(name)
    found = dry_run.resolve(selection.select(judge.cases(profile), "embedding or kda"), profile)
    lines = dry_run.commands(found, Arguments(profile=name, keyword="embedding or kda", seeds=1), profile)
    alone, together, verdict = (line.strip() for line in lines if " numerics " in line)
    assert shlex.split(alone)[-2:] == ["-k", "embedding or kda"]
    assert together.startswith(f"every node: torchrun --nnodes {nodes} --nproc-per-node 4 ")
    assert together.endswith("-m validate numerics --resume RUN")
    assert verdict == "node 0: python -m validate numerics --resume RUN"
    several = sum(one.processes == profile.tp[0] for one in found)
    assert any(line.startswith(f"{several} cases over {profile.tp[0]} ranks") for line in lines)


@pytest.mark.parametrize(
    ("nodes", "gpus", "said"),
    [
        (16, 4, "each of 2 nodes: torchrun --nnodes 2 --nproc-per-node 4 "),
        (2, 8, "node 0: torchrun --nnodes 1 --nproc-per-node 8 "),
        (2, 6, "every node: torchrun --nnodes 2 --nproc-per-node 4 "),
    ],
)
def test_ranks_take_the_fewest_nodes_that_hold_them(nodes: int, gpus: int, said: str) -> None:
    profile = profiles.load("gb300-tp8").model_copy(update={"nodes": nodes, "gpus_per_node": gpus})
    found = dry_run.resolve(selection.select(judge.cases(profile), "o_proj and batch1- and trained"), profile)
    lines = dry_run.commands(found, Arguments(profile="mine", seeds=1), profile)
    assert any(line.strip().startswith(said) for line in lines), lines


def test_ranks_that_cannot_be_spread_evenly_are_refused() -> None:
    profile = profiles.load("gb300-tp8").model_copy(update={"nodes": 3, "gpus_per_node": 3})
    found = dry_run.resolve(selection.select(judge.cases(profile), "o_proj and batch1- and trained"), profile)
    with pytest.raises(InputError, match="8 ranks cannot be spread evenly over 3 nodes of 3 GPUs"):
        dry_run.commands(found, Arguments(profile="mine", seeds=1), profile)


@pytest.mark.parametrize("name", ["cpu", "gb300-tp16"])
def test_the_commands_have_the_seeds_that_were_asked_for(name: str) -> None:
    profile = profiles.load(name).model_copy(update={"seeds": 5})
    commands = [line for line in dry_run.commands([], Arguments(profile=name, seeds=5), profile) if "validate numerics" in line]
    assert len(commands) == 1
    assert "--seeds 5" in commands[0]


def test_equal_sizes_are_built_once_and_need_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other kinds of input change nothing of a tensor's size, but for those stages whose kinds are told apart."""
    cases = [case for case in judge.cases(profiles.load("gb300-tp16")) if case.sizes["batch"] == 2]
    own = [footprint(judge.build(case)) for case in cases]
    assert [one.footprint for one in dry_run.resolve(cases, EMULATED)] == own
    built = []
    monkeypatch.setattr(judge, "build", lambda case, build=judge.build: built.append(case) or build(case))
    kinds = [case for case in cases if case.stage == "kda"]
    assert len(dry_run.resolve(kinds, EMULATED)) > len(built)


def test_a_gpu_that_is_too_old_is_a_reason_not_to_run() -> None:
    from validate.paths.vllm import ADAPTERS, Vllm, choose, source

    call = judge.build(case_of("kda", batch=1))
    nowhere = source.Source(Path())
    assert choose("specialized", call, nowhere, (9, 0), 16) is ADAPTERS["specialized"]["kda"][0]
    assert choose("specialized", call, nowhere, (8, 9), 16) == "needs compute capability 9.0, this GPU has 8.9"
    assert "no adapter" in str(choose("default", judge.build(judge.cases(EMULATED, ["decode_step"])[0]), nowhere, (10, 3), 16))
    subject = object.__new__(Vllm)  # as on a GPU, which its construction asks for
    subject.path, subject._source, subject._gpu = "default", nowhere, SimpleNamespace(capability=(8, 0))
    subject._gpus, subject._group = 1, None
    assert "needs compute capability 9.0" in str(subject.missing(call))


def test_a_gpu_profile_asks_its_kernels() -> None:
    asked = subjects.without_gpu(profiles.load("hopper"))
    assert set(asked) == {"vllm-default", "vllm-specialized"}
    assert asked["vllm-default"](judge.build(case_of("kda", batch=1))) is None


def test_a_gpu_profile_with_an_unknown_subject_is_refused() -> None:
    profile = profiles.load("hopper").model_copy(update={"subjects": ("vllm-special",)})
    with pytest.raises(InputError, match="unknown subject 'vllm-special'"):
        subjects.without_gpu(profile)


class Elsewhere(Emulated):
    """A kernel's subject on a GPU of another kind."""

    def files(self) -> VllmFiles:
        return VllmFiles(version="0.33.0", commit=None, files={})

    def capability(self) -> tuple[int, int]:
        return (9, 0)


def test_a_gpu_that_is_not_the_profiles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "_vllm", lambda path, folder, gpus, interpreted: Elsewhere(path))
    assert subjects.make(profiles.load("hopper"))
    with pytest.raises(InputError, match=r"gb300-tp16 runs on GPUs of compute capability 10\.3, this one has 9\.0"):
        subjects.make(profiles.load("gb300-tp16"))
