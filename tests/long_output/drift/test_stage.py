"""Subjects and yardstick against the whole stage that they are cut from, on the same inputs."""

from typing import Any

import pytest
import torch

from validate.long_output.drift.heads import HEADS
from validate.long_output.drift.stream import KEYS, REQUESTS, VALUES, Block, Stream
from validate.long_output.drift.subject import LANES, default, specialized
from validate.long_output.drift.yardstick import OWN, Yardstick
from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated.kda import DefaultKda, SpecializedKda
from validate.reference.kda import reference
from validate.reference.points import Points

STEPS = 8
WIDTH = HEADS * KEYS


class Whole:
    """The whole stage with all value channels, of which those that the stream lacks are zero."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.buffers = {
            "conv": torch.zeros(REQUESTS + 1, 3 * WIDTH, 3, dtype=torch.bfloat16),
            "state": torch.zeros(REQUESTS + 1, HEADS, KEYS, KEYS),
        }
        weight = torch.zeros(3 * WIDTH, 4)
        weight[: 2 * WIDTH] = stream.inputs["conv_weight"][: 2 * WIDTH]
        weight[2 * WIDTH :].view(HEADS, KEYS, 4)[:, :VALUES] = stream.inputs["conv_weight"][2 * WIDTH :].view(HEADS, VALUES, 4)
        self.weight = weight

    def call(self, block: Block, n: int) -> Call:
        """Step ``n``: its projected gate is a one-hot row times a matrix that holds the gates."""
        x = torch.zeros(REQUESTS, 3 * WIDTH, dtype=torch.bfloat16)
        x[:, : 2 * WIDTH] = block.x[n, :, : 2 * WIDTH]
        x[:, 2 * WIDTH :].view(REQUESTS, HEADS, KEYS)[:, :, :VALUES] = block.x[n, :, 2 * WIDTH :].view(REQUESTS, HEADS, VALUES)
        f_b = torch.zeros(WIDTH, KEYS)
        f_b[:, :REQUESTS] = block.gate[n].T
        inputs: dict[str, Any] = self.stream.inputs | {
            "x": x,
            "gate": torch.zeros(REQUESTS, WIDTH, dtype=torch.bfloat16),
            "f_a": torch.eye(KEYS)[:REQUESTS].bfloat16(),
            "f_b": f_b.bfloat16(),
            "beta": block.beta[n],
            "conv_weight": self.weight,
            "norm_eps": K3.rms_eps,
        }
        sizes = {"tp": 8, "batch": REQUESTS, "q": 1, "regime": REQUESTS}
        return Call("kda", sizes, inputs, {"out": ((REQUESTS, WIDTH), torch.bfloat16)}, self.buffers)


def emulation(name: str) -> DefaultKda:
    return DefaultKda() if name == "default" else SpecializedKda()


@pytest.mark.parametrize("name", ["default", "specialized"])
def test_a_subject_is_the_stages_recurrence(name: str) -> None:
    stream = Stream(0)
    block, whole = stream.block(0), Whole(stream)
    path = emulation(name)
    subject = default(stream.inputs) if name == "default" else specialized("s", SpecializedKda(), stream.inputs)
    prepared = subject.prepare(block)
    for n in range(STEPS):
        subject.step(prepared, n)
        call = whole.call(block, n).fresh()
        path(call)
        whole.buffers = dict(call.buffers)
        assert torch.equal(subject.state[1:], whole.buffers["state"][1:, :, :VALUES])
    assert LANES in (8, 16)


@pytest.mark.parametrize("name", ["default", "specialized"])
def test_a_yardstick_is_the_reference(name: str) -> None:
    """Within what the reference loses by starting each step from a state in fp32."""
    stream = Stream(0)
    block, whole = stream.block(0), Whole(stream)
    yardstick = Yardstick(stream.inputs)
    exact = yardstick.prepare(block, *convolutions(stream, block))
    assert exact.strays.tolist() == [0, 0]
    for n in range(STEPS):
        yardstick.step(exact, n)
        call = whole.call(block, n)
        expected = reference(call, Points(name))
        state = expected["state"].value[:, :, :VALUES]
        own = yardstick.state[OWN[name]]
        assert (state - own).norm() < STEPS * 2.0**-24 * own.norm()
        new = call.fresh()
        emulation(name)(new)  # moves the convolution's taps on
        new.buffers["state"][1:] = expected["state"].value.float()
        whole.buffers = dict(new.buffers)


def convolutions(stream: Stream, block: Block) -> tuple[torch.Tensor, torch.Tensor]:
    subjects = specialized("s", SpecializedKda(), stream.inputs), default(stream.inputs)
    first, second = (subject.prepare(block).activated.clone() for subject in subjects)
    return first, second


def test_a_stray_rounding_is_counted() -> None:
    stream = Stream(0)
    block = stream.block(0)
    in_fp32, rounded = convolutions(stream, block)
    rounded[5, 7] = torch.nextafter(rounded[5, 7].bfloat16(), torch.tensor(9.0).bfloat16()).float()
    in_fp32[3, :2] *= 1 + 2.0**-16
    assert Yardstick(stream.inputs).prepare(block, in_fp32, rounded).strays.tolist() == [2, 1]
