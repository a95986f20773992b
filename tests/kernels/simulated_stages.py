"""The adapters of one GPU, and attention over ranks, with vLLM's host code and kernels that are played; the suite judges.

An adapter's call goes through vLLM's own classes to launches; ``simulated_kernels`` plays each by its kernel's class, on a
CPU. The result is a subject of the suite like any other, so the verdict is the suite's: a wrong operand, scale, slice or row,
a copy that is missing and an input that is read too early show, and so does what a launch leaves in buffers.

``python -m tests.kernels.simulated_stages FOLDER CASE ...``, in a process of its own. A case is
STAGE/ADAPTER/INPUTS/NAME=NUMBER,.../[FAULT]: prints it with PASS, or with what was found.
"""

import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.kernels import simulated_kernels as kernels
from validate.kernels import driverless, flashinfer_front
from validate.kernels.deployment import Deployment
from validate.kernels.launches import View
from validate.model.call import Call
from validate.numerics import judge, measure
from validate.numerics.case import Case
from validate.paths.vllm import ADAPTERS, ranks
from validate.paths.vllm.adapter import Composed, OverRanks, Part
from validate.paths.vllm.source import Source, opened


class Played:
    """An adapter of one GPU as a subject."""

    path = "specialized"
    name = "played-specialized"

    def __init__(self, adapter: Any, source: Source) -> None:
        self.adapter, self.source = adapter, source

    def missing(self, call: Call) -> str | None:
        """The adapter's own reason."""
        reason: str | None = self.adapter.missing(call, self.source)
        return reason

    def note(self, call: Call) -> str | None:
        """The adapter's own."""
        note: str | None = self.adapter.note(call)
        return note

    def ranks(self, call: Call) -> int:
        """One process."""
        return 1

    def run(self, call: Call) -> None:
        """A launch."""
        if isinstance(self.adapter, OverRanks):
            self._over_ranks(call)
        else:
            self._compose(call, self._once)

    def again(self, call: Call) -> None:
        """Prepared and launched with zeros for the step's inputs, then launched with the call's, as a replayed graph is."""
        if isinstance(self.adapter, OverRanks):
            self._over_ranks(call)
        else:
            self._compose(call, self._twice)

    def _over_ranks(self, call: Call) -> None:
        """All ranks prepare in turn, and launch in threads: once with zeros for the step's inputs, then with the call's."""
        size, memory = call.shape["tp"], sys.modules["torch.distributed._symmetric_memory"]
        group = kernels.RANKS = kernels.Ranks(size)
        memory.__dict__.update(empty=group.empty, rendezvous=group.rendezvous)
        shares = [_moved(ranks.share(call, rank), self.adapter.step) for rank in range(size)]
        before = [_moved(share, self.adapter.step) for share in shares]
        prepared = []
        for group.rank, share in enumerate(shares):
            for name in self.adapter.step:
                share.inputs[name].zero_()
            who = SimpleNamespace(rank=group.rank, size=size, process_group=None)
            prepared.append(self.adapter.prepare(share, self.source, who))
        for step in (False, True):
            for share, old, one in zip(shares, before, prepared, strict=True):
                for name in self.adapter.step if step else ():
                    share.inputs[name].copy_(old.inputs[name])
                for name in (*share.outputs, *share.buffers):
                    share.written(name).copy_(old.written(name))
                assert one.arm is not None
                one.arm()
            _together(group, [one.launch for one in prepared])
        names = {id(shares[0].written(name)): name for name in (*call.outputs, *call.buffers)}
        ranks.merge(call, shares[0], lambda tensor: [share.written(names[id(tensor)]) for share in shares])

    def _compose(self, call: Call, run: Callable[[Part, Call], None]) -> None:
        if isinstance(self.adapter, Composed):
            self.adapter.compose(call, run)
        else:
            run(self.adapter, call)

    def _once(self, part: Part, call: Call) -> None:
        there = _moved(call, part.step)
        part.prepare(there, self.source).launch()
        _returned(there, call)

    def _twice(self, part: Part, call: Call) -> None:
        there = _moved(call, part.step)
        for name in part.step:
            if there.inputs[name] is not None:
                there.inputs[name].zero_()
        launch = part.prepare(there, self.source).launch
        launch()
        for name in part.step:
            if there.inputs[name] is not None:
                there.inputs[name].copy_(call.inputs[name])
        for name, tensor in (*there.outputs.items(), *there.buffers.items()):
            tensor.copy_(call.written(name))
        launch()
        _returned(there, call)


def _moved(call: Call, step: Sequence[str]) -> Call:
    """A copy, as on a GPU: what the adapter writes is not what the judge holds. Weights are the call's own."""
    inputs = dict(call.inputs)
    inputs.update({name: call.inputs[name].clone() for name in step if call.inputs[name] is not None})
    outputs = {name: tensor.clone() for name, tensor in call.outputs.items()}
    return replace(call, inputs=inputs, outputs=outputs, buffers={name: tensor.clone() for name, tensor in call.buffers.items()})


def _returned(there: Call, call: Call) -> None:
    for name in (*there.outputs, *there.buffers):
        call.written(name).copy_(there.written(name))
    for name, value in there.inputs.items():
        if isinstance(value, Tensor) and not torch.equal(measure.bits(value), measure.bits(call.inputs[name])):
            call.inputs[name].copy_(value)


def _together(group: kernels.Ranks, launches: Sequence[Callable[[], None]]) -> None:
    """Every rank's launch in a thread; the error of one ends all."""
    errors: list[Exception] = []

    def run(launch: Callable[[], None]) -> None:
        try:
            launch()
        except Exception as error:
            if not isinstance(error, threading.BrokenBarrierError):
                errors.append(error)
            group.abort()

    threads = [threading.Thread(target=run, args=(launch,)) for launch in launches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@dataclass(frozen=True)
class Fault:
    """Text of a module that is replaced: the adapter's, vLLM's host code or a kernel that is played."""

    module: str
    old: str
    new: str


def prepare(source: Source) -> None:
    """Stands in for what vLLM's host code needs, once in a process."""
    driverless.prepare(source, "sm_103a", View)
    for name in ("common.host", "gemm.projection", "moe.shared"):
        module: Any = source.module(f"{driverless.CUTEDSL}.{name}")
        module.tensor_maps = kernels.tensor_maps
    cute: Any = importlib.import_module("cutlass.cute")
    experimental: Any = importlib.import_module("cutlass.cute.experimental")
    cute.compile = experimental.compile = _compiled
    setattr(sys.modules["flashinfer.decode"], flashinfer_front.NAME, lambda **given: kernels.trtllm(**given))


def _compiled(kernel: Any, *_: Any, **__: Any) -> Callable[..., None]:
    """Instead of ``cute.compile``: a launch is played by the kernel's class."""

    def launch(*given: Any) -> None:
        play = getattr(kernels, type(kernel).__name__)
        play(kernel, *(g.tensor if isinstance(g, View) else getattr(g, "value", g) for g in given))

    return launch


def judged(source: Source, stage: str, adapter: str, inputs: str, sizes: dict[str, int]) -> list[str]:
    """What the suite finds of an adapter, by its class, on a case: nothing if it passes."""
    call = judge.build(Case(stage, sizes, inputs, 0))
    driverless.deploy(Deployment(sizes.get("tp", 8), sizes.get("q", 1), sizes.get("dcp", 1) > 1, ()))
    driverless.forget()
    kernels.MAPS.clear()
    able = next(one for one in ADAPTERS["specialized"][stage] if type(one).__name__ == adapter)
    able = getattr(sys.modules[type(able).__module__], adapter)()  # as a fault has changed it
    (judgement,) = judge.judge_call(call, [Played(able, source)])
    if judgement.missing:
        return [f"missing: {judgement.missing}"]
    return [f"{m.tensor} {m.check}" for m in judgement.measurements if not m.passed]


@contextmanager
def planted(source: Source, fault: Fault | None) -> Iterator[None]:
    """Runs the module's changed text in its place, and its own again afterwards."""
    if fault is None:
        yield
        return
    module: Any = source.module(fault.module) if fault.module.startswith("models.") else sys.modules[fault.module]
    text = Path(module.__file__).read_text(encoding="utf-8")
    assert text.count(fault.old) == 1, fault
    kept = dict(vars(module))
    exec(compile(text.replace(fault.old, fault.new), module.__file__, "exec"), vars(module))
    try:
        yield
    finally:
        vars(module).update(kept)


def _main(folder: str, *cases: str) -> None:
    from tests.kernels.simulated_faults import FAULTS

    source = opened(Path(folder))
    prepare(source)
    torch.set_num_threads(1)
    for case in cases:
        stage, adapter, inputs, sizes, *fault = case.split("/")
        numbers = {name: int(number) for name, number in (pair.split("=") for pair in sizes.split(","))}
        with planted(source, FAULTS[fault[0]] if fault else None):
            try:
                found = judged(source, stage, adapter, inputs, numbers)
            except (AssertionError, IndexError, RuntimeError) as error:  # operands that a kernel could not have read so
                found = [f"refused: {error}"]
        print(f"{case}: {', '.join(found) or 'PASS'}", flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
