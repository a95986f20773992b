"""Names the kernels that adapters compile and vLLM's own deployment does not: they would be other kernels.

``python -m tests.kernels.unasked FOLDER PROFILE KEYWORD``, in a process of its own.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

from validate import profiles
from validate.kernels import driverless
from validate.kernels.deployment import Deployment
from validate.kernels.recording import Recorder
from validate.numerics import judge, selection
from validate.numerics.subjects import CAPABILITY
from validate.paths.vllm import choose, ranks
from validate.paths.vllm.adapter import OverRanks
from validate.paths.vllm.source import opened


def _main(folder: str, name: str, keyword: str) -> None:
    source, profile = opened(Path(folder)), profiles.load(name)
    recorder = Recorder(driverless.prepare(source, "sm_103a"))
    deployment = Deployment(profile.tp[0], 1, False, profile.batches)
    recorder.record(deployment)
    asked, signatures = set(recorder.variants), set(recorder._names)
    compiled = 0
    for case in selection.select(judge.cases(profile), keyword):
        call = judge.build(case).fresh()
        adapter = choose("specialized", call, source, CAPABILITY["gb300"], profile.gpus)
        if isinstance(adapter, OverRanks):
            driverless.forget()
            recorder._asked = []
            group = SimpleNamespace(rank=0, size=deployment.tp, process_group=None)
            adapter.prepare(ranks.share(call, 0).to("meta"), source, group)
            compiled += len(recorder._asked)
    for kernel in sorted(set(recorder.variants) - asked):
        print(kernel)
    sys.exit(len(recorder._names) > len(signatures) or not compiled)


if __name__ == "__main__":
    _main(*sys.argv[1:])
