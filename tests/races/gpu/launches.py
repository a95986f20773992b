"""Run by ``test_kernels``: binds and launches every planned kernel over meta tensors, each launch watched; or compiles copies.

``python -m tests.races.gpu.launches VLLM``: a line a kernel, with what its launch is not compiled for.
``python -m tests.races.gpu.launches VLLM NAME``: compiles the trial's copies for sm_90a; the last line counts waits in each.
``python -m tests.races.gpu.launches VLLM KERNEL SIZES``: compiles a kernel, as the environment says.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from validate.races.gpu import plan

META = torch.device("meta")


def _launches(root: Path) -> None:
    from validate.kernels.launches import Watch
    from validate.paths.vllm.source import opened
    from validate.races.gpu.kernels import KERNELS

    watch = Watch(opened(root), "sm_90a")
    for kernel, sizes in dict.fromkeys((trial.kernel, json.dumps(trial.sizes)) for trial in plan.TRIALS):
        bound = KERNELS[kernel](watch.source, META, **json.loads(sizes))
        (launch,) = watch.watched(bound.launch)
        print(f"{kernel} {launch.kernel}: {'; '.join(launch.differences) or 'as compiled'}")


def _compiled(root: Path, name: str) -> None:
    from validate.paths.vllm.edits import copied
    from validate.races.gpu.faults import FAULTS
    from validate.races.gpu.stalls import STALLS

    trial = next(trial for trial in plan.TRIALS if trial.name == name)
    stalls = [STALLS[trial.stall].change] if trial.stall else []
    counts = []
    for number, changes in enumerate([stalls, [*stalls, FAULTS[trial.fault].change]]):
        with tempfile.TemporaryDirectory() as there:
            folder = copied(root, Path(there) / str(number), *changes)
            reading, writing = os.pipe()
            if os.fork() == 0:  # what stands in for a driver is put in place once a process
                os.write(writing, json.dumps(_ptx(folder, trial)).encode())
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as told:
                counts.append(json.loads(told.read()))
    print(json.dumps(counts))


def _ptx(root: Path, trial: Any) -> dict[str, int]:
    os.environ |= {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_KEEP_PTX": "1", "CUTE_DSL_DUMP_DIR": tempfile.mkdtemp()}
    import cutlass.cute as cute

    from validate.kernels import driverless
    from validate.paths.vllm.source import opened
    from validate.races.gpu.kernels import KERNELS

    source = opened(root)
    driverless.prepare(source, "sm_90a")
    made, compile_ = [], cute.compile

    class Kept:
        def __call__(self, *given: Any, **options: Any) -> Any:
            made.append(compile_(*given, **options))
            return made[-1]

        def __getattr__(self, name: str) -> Any:
            return getattr(compile_, name)

    cute.compile = Kept()
    KERNELS[trial.kernel](source, META, **trial.sizes)
    text = made[-1].__ptx__
    marks = {"dependency": "griddepcontrol.wait", "cluster": "barrier.cluster.wait", "delays": "%globaltimer"}
    return {name: text.count(mark) for name, mark in marks.items()}


def _bound(root: Path, kernel: str, sizes: str) -> None:
    from validate.kernels import driverless
    from validate.paths.vllm.source import opened
    from validate.races.gpu.kernels import KERNELS

    driverless.prepare(opened(root), "sm_90a")
    KERNELS[kernel](opened(root), META, **json.loads(sizes))


if __name__ == "__main__":
    root, *names = sys.argv[1:]
    (_launches, _compiled, _bound)[len(names)](Path(root), *names)
