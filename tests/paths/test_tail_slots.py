"""The real mailboxes of the MoE tail and the call's: eight ranks' of them in one process, without kernels."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from validate.model.call import Call
from validate.numerics import judge
from validate.numerics.case import Case
from validate.paths import Broken
from validate.paths.emulated import moe_tail as emulated
from validate.paths.emulated.mailbox import arm, armed
from validate.paths.vllm import ranks
from validate.paths.vllm.tail_slots import CAPACITY, PolledInputs, TailSlots

TP, OWN, OLD = 8, 2, 1


class Launch:
    """What each rank has, from ``arm`` on, of a call: publishing is real, the kernels' part of it is done by hand."""

    def __init__(self, batch: int, rearm: int, twoshot: bool, shares: bool = True) -> None:
        self.call = judge.build(Case("moe_tail", {"tp": TP, "batch": batch, "rearm": rearm}, "trained", 0)).fresh()
        self.shares = [ranks.share(self.call, rank) for rank in range(TP)]
        self.boxes = [_box() for _ in range(TP)]
        self.twoshot = twoshot
        options = {"twoshot": twoshot, "shares": shares}
        self.slots = [
            TailSlots(box, share, rank, OWN, OLD, **options)
            for rank, (box, share) in enumerate(zip(self.boxes, self.shares, strict=True))
        ]
        for one in self.slots:
            one.arm()

    def latents(self) -> list[Tensor]:
        return [box.twoshot.recv if self.twoshot else box.latent.buffer for box in self.boxes]

    def run(self) -> None:
        batch, rearm = self.call.shape["batch"], self.call.shape["rearm"]
        width = self.call.inputs["shared"].shape[2] // TP
        for rank, one in enumerate(self.slots):
            own = self.shares[rank].inputs
            one.publish(emulated.SpecializedMoeTail().finalize(own["routed"], own["weights"])[0], self.latents())
            for owner, box in enumerate(self.boxes):
                box.rs.buffer[OWN, rank, :batch] = own["shared"][0, :, owner * width : (owner + 1) * width] + 0.0
        for box, latent in zip(self.boxes, self.latents(), strict=True):
            for used in (latent, box.rs.buffer, box.twoshot.gather if self.twoshot else box.reduced):
                arm(used[OLD, ..., :rearm, :])

    def collect(self) -> Call:
        for one in self.slots:
            one.collect()
        for rank in range(TP):
            ranks.merge(self.call, self.shares[rank], self._of_all)
        return self.call

    def _of_all(self, mine: Tensor) -> list[Tensor]:
        """Each rank's tensor of the name that ``mine`` has on one."""
        everywhere = [{**share.outputs, **share.buffers} for share in self.shares]
        (name,) = {name for own in everywhere for name, tensor in own.items() if tensor is mine}
        return [own[name] for own in everywhere]


def _box() -> Any:
    boxes = {"latent": (3, TP, CAPACITY, 3584), "rs": (3, TP, CAPACITY, 896), "out": (1, CAPACITY, 7168)}
    twoshot = SimpleNamespace(recv=armed((3, TP, CAPACITY, 448)), gather=armed((3, 1, CAPACITY, 3584)))
    named = {name: SimpleNamespace(buffer=armed(shape)) for name, shape in boxes.items()}
    return SimpleNamespace(**named, twoshot=twoshot, reduced=armed((3, CAPACITY, 3584)))


@pytest.mark.parametrize(("batch", "rearm", "twoshot"), [(2, 4, False), (9, 9, True), (64, 64, False)])
def test_what_is_judged_is_what_the_emulation_leaves(batch: int, rearm: int, twoshot: bool) -> None:
    launch = Launch(batch, rearm, twoshot)
    emulation = judge.build(Case("moe_tail", launch.call.shape, "trained", 0)).fresh()
    emulated.SpecializedMoeTail()(emulation)
    launch.run()
    found = launch.collect()
    for name, buffer in emulation.buffers.items():
        assert torch.equal(found.buffers[name].view(torch.int16), buffer.view(torch.int16)), name


def test_a_layer_before_that_stays_is_judged_as_it_stays() -> None:
    launch = Launch(2, 4, twoshot=False)
    launch.run()
    launch.boxes[3].rs.buffer[OLD, 5, 2, 7] = 1.0
    with pytest.raises(Broken, match="1 words of the tail's mailboxes are not armed again"):
        launch.slots[3].collect()
    assert launch.shares[3].buffers["shared_old"][5, 2, 7] == 1.0


@pytest.mark.parametrize(
    "place",
    [
        lambda box: box.latent.buffer[3 - OWN - OLD],
        lambda box: box.out.buffer,
        lambda box: box.reduced[OLD],
        lambda box: box.twoshot.recv[OWN],
        lambda box: box.latent.buffer[OLD, :, :, 1000:],
    ],
    ids=["another layer's slot", "the output", "sums of the layer before", "receive slots", "another rank's columns"],
)
def test_what_the_judge_does_not_see_must_be_armed(place: Any) -> None:
    launch = Launch(2, 4, twoshot=False)
    launch.run()
    part = place(launch.boxes[0])
    part[(0,) * part.dim()] = 1.0
    with pytest.raises(Broken, match=r"^1 words"):
        launch.slots[0].collect()


def test_a_second_launch_finds_the_layer_before_again() -> None:
    launch = Launch(2, 4, twoshot=False)
    before = [box.latent.buffer.clone() for box in launch.boxes]
    launch.run()
    launch.collect()
    for one in launch.slots:
        one.arm()
    assert all(torch.equal(box.latent.buffer, old) for box, old in zip(launch.boxes, before, strict=True))


def test_a_launch_waits_for_its_own_slots() -> None:
    launch = Launch(9, 9, twoshot=True)
    shapes = [tuple(box.shape) for box in launch.slots[0].polled()]
    assert shapes == [(TP, 9, 448), (TP, 9, 896), (1, 9, 3584), (1, 9, 7168)]


def test_inputs_that_are_polled_must_be_armed_but_for_the_layers_own() -> None:
    share = Launch(1, 8, twoshot=False).shares[0]
    inputs = PolledInputs(share, 8, OWN, OLD)
    inputs.arm()
    inputs.fill()
    assert [tuple(box.shape) for box in inputs.boxes] == [(3, 128, 3584), (3, 8, 16), (3, 8, 7168)]
    assert torch.equal(inputs.boxes[0][OWN, :16], share.inputs["routed"][0, 0])
    with pytest.raises(Broken):
        inputs.collect()
    for box in inputs.boxes:
        box[OLD].view(torch.int32).fill_(-1)
    inputs.collect()
