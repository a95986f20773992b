"""Holds launches against what their kernels were compiled for, on any machine, and runs none.

A CuTe kernel is compiled for the shapes, strides and types of the operands that its compilation was given. A launch hands
over pointers: what lies behind them is read as those shapes, whatever it is. Here vLLM's compilations and launches are
watched over meta tensors, and each launch is compared with the compilation of the kernel that it launches.
"""

import contextlib
import importlib
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from validate import profiles
from validate.kernels import driverless, flashinfer_front
from validate.kernels.deployment import Deployment
from validate.kernels.recording import kind
from validate.model.call import Call
from validate.numerics import judge, selection
from validate.numerics.case import Case
from validate.numerics.subjects import CAPABILITY
from validate.paths import Broken
from validate.paths.vllm import ADAPTERS, AnyAdapter, ranks
from validate.paths.vllm.adapter import OverRanks, Part, Whole
from validate.paths.vllm.source import Source, opened
from validate.profiles import Profile
from validate.stages import DEFAULT_ONLY


class View:
    """What a launch is given of a tensor: stands for vLLM's ``to_cute`` views, which meta tensors cannot have."""

    def __init__(self, tensor: Tensor, assumed_align: int = 16) -> None:
        self.tensor, self.align = tensor, assumed_align

    def mark_layout_dynamic(self, leading_dim: int) -> "View":
        """A view like this one: what is dynamic, the compilation says."""
        return self


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel, and in words where its operands are not those that it was compiled for."""

    kernel: str
    differences: tuple[str, ...]


class Watch:
    """vLLM's compilations and launches over meta tensors. One in a process: it replaces what ``driverless`` replaces."""

    def __init__(self, source: Source, arch: str) -> None:
        self.source = source
        self.decode = driverless.prepare(source, arch, View)
        if importlib.util.find_spec("triton") is not None:
            driverless.without_triton(source)
        self._launches: list[Launch] = []
        cute: Any = importlib.import_module("cutlass.cute")
        experimental: Any = importlib.import_module("cutlass.cute.experimental")
        cute.compile = experimental.compile = self._compile
        setattr(sys.modules["flashinfer.decode"], flashinfer_front.NAME, self._closed)

    def launches(self, adapter: AnyAdapter, call: Call, deployment: Deployment) -> list[Launch]:
        """Those of a stage's adapter with a call of this deployment, as its rank 0."""
        driverless.deploy(deployment)
        driverless.forget()
        return self.watched(lambda: self._run(adapter, call.fresh(), deployment.tp))

    def watched(self, run: Callable[[], object]) -> list[Launch]:
        """The launches of what is run."""
        self._launches = []
        run()
        return self._launches

    def _run(self, adapter: AnyAdapter, call: Call, tp: int) -> None:
        if isinstance(adapter, OverRanks):
            group = SimpleNamespace(rank=0, size=tp, process_group=None)
            prepared = adapter.prepare(ranks.share(call, 0).to("meta"), self.source, group)
            if prepared.arm is not None:
                prepared.arm()
            prepared.launch()
        elif isinstance(adapter, Whole):
            self._launch(adapter, call)
        else:
            with contextlib.suppress(Broken):  # nothing ran, and what is emulated around it notices
                adapter.compose(call, self._launch)

    def _launch(self, part: Part, call: Call) -> None:
        part.prepare(call.to("meta"), self.source).launch()

    def _compile(self, kernel: Any, *operands: Any, **_: Any) -> "_Compiled":
        return _Compiled(kind(kernel), operands, lambda launch: self._launches.append(launch))

    def _closed(self, **given: Any) -> None:
        self._launches.append(Launch(flashinfer_front.NAME, tuple(flashinfer_front.differences(given))))


class _Compiled:
    def __init__(self, kernel: str, operands: Sequence[Any], launched: Callable[[Launch], None]) -> None:
        self._kernel, self._launched = kernel, launched
        # TVM-FFI brings the stream itself; what a compilation is given after it is constant.
        self._operands = list(takewhile(lambda operand: not getattr(operand, "use_tvm_ffi_env_stream", False), _flat(operands)))

    def __call__(self, *given: Any) -> None:
        pairs = zip_longest(self._operands, _flat(given), fillvalue=_NOTHING)
        found = [f"operand {n}: {why}" for n, pair in enumerate(pairs) for why in differences(*pair)]
        self._launched(Launch(self._kernel, tuple(found)))


_NOTHING = type("Nothing", (), {"__repr__": lambda self: "nothing"})()


def differences(wanted: Any, given: Any) -> Iterator[str]:
    """Where an operand of a launch is not what its kernel was compiled for, in words."""
    if isinstance(given, Tensor):  # as compilations with TVM-FFI are launched
        given = View(given, 1)
        tensor = True
    else:
        tensor = isinstance(given, View)
    if not hasattr(wanted, "element_type") or not tensor:
        if _name(wanted) != _name(given) and not _number(wanted, given):
            yield f"{_name(given)}, compiled for {_name(wanted)}"
        return
    there, dtype = given.tensor, str(given.tensor.dtype).removeprefix("torch.").replace("_", "")
    if dtype != wanted.element_type.__name__.lower():
        yield f"{dtype}, compiled for {wanted.element_type.__name__}"
    if not _fits(wanted.shape, there.shape):
        yield f"shape {tuple(there.shape)}, compiled for {_shown(wanted.shape)}"
    elif not _fits(wanted.stride, there.stride(), [n != 1 for n in there.shape]):
        yield f"stride {there.stride()}, compiled for {_shown(wanted.stride)}"
    align = wanted._assumed_align
    if there.storage_offset() * there.element_size() % align:
        yield f"begins {there.storage_offset()} elements into its memory, compiled for an alignment of {align} bytes"


def _fits(wanted: Sequence[Any], given: Sequence[int], matters: Iterable[bool] | None = None) -> bool:
    """Equal lengths, and equal wherever the compilation fixed a number (of a dimension with more than one element)."""
    if len(wanted) != len(given):
        return False
    chosen = matters or [True] * len(given)
    return all(not (m and isinstance(w, int)) or w == g for w, g, m in zip(wanted, given, chosen, strict=True))


def _shown(sizes: Sequence[Any]) -> str:
    return "(" + ", ".join(str(n) if isinstance(n, int) else "?" for n in sizes) + ")"


def _name(value: Any) -> str:
    """A scalar's type; streams, compiled for a fake one, by one name."""
    if hasattr(value, "element_type") or isinstance(value, View):
        return "a tensor"
    name = type(value).__name__
    return {"_FakeStream": "a stream", "CUstream": "a stream", "NoneType": "None"}.get(name, name)


def _number(wanted: Any, given: Any) -> bool:
    """A plain number for a scalar of its kind: TVM-FFI converts it to the type that was compiled (tvm_ffi_builder.py)."""
    kinds = {int: "Int", float: "Float"}
    return type(given) in kinds and type(wanted).__name__.startswith(kinds[type(given)])


def _flat(operands: Sequence[Any]) -> Iterator[Any]:
    for operand in operands:
        if isinstance(operand, (tuple, list)):
            yield from _flat(operand)
        else:
            yield operand


def of_adapters(watch: Watch, profile: Profile, keyword: str | None = None) -> Iterator[tuple[Case, list[Launch]]]:
    """The launches of each case by each adapter of the specialized path that can run it on GB300; equal shapes once.

    Of a stage that only the default path has, by that path's. Triton's launches ask for a driver: left out.
    """
    known: set[str] = set()
    for case in selection.select(judge.cases(profile), keyword):
        adapters = ADAPTERS["default" if case.stage in DEFAULT_ONLY else "specialized"].get(case.stage, ())
        if case.shapes in known:
            continue
        known.add(case.shapes)
        call = judge.build(case)
        tp, shared = case.sizes.get("tp", profile.tp[0]), case.sizes.get("dcp", 1) > 1
        deployment = Deployment(tp, case.sizes.get("q", 1), shared, profile.batches)
        able = [a for a in adapters if not a.launches_triton and not a.needs.lacking(CAPABILITY["gb300"])]
        able = [adapter for adapter in able if adapter.missing(call, watch.source) is None]
        if able:
            yield case, [launch for adapter in able for launch in watch.launches(adapter, call, deployment)]


def _main(profile: str, folder: str, keyword: str | None = None) -> None:
    """Prints each case's launches that differ, then how many there were of each stage. Exit code 1 if any differ."""
    watch = Watch(opened(Path(folder)), "sm_103a")
    counts: dict[str, Counter[str]] = {}
    differ = 0
    for case, launches in of_adapters(watch, profiles.load(profile), keyword):
        counts.setdefault(case.stage, Counter()).update(["cases", *(launch.kernel for launch in launches)])
        for launch in launches:
            differ += bool(launch.differences)
            for difference in launch.differences:
                print(f"{case.id}: {launch.kernel}: {difference}")
    for stage, found in counts.items():
        print(f"{stage}: " + ", ".join(f"{name} {count}" for name, count in found.items()))
    sys.exit(bool(differ))


if __name__ == "__main__":
    _main(*sys.argv[1:])
