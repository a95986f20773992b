"""The experts' adapter binds the kernels that a deployment compiles: the variants that golden/kernels has, by their names."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from validate.kernels import golden, needs

pytestmark = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")
SCRIPT = """
import contextlib, json, sys
from pathlib import Path
from validate import profiles
from validate.kernels import driverless, recording
from validate.kernels.deployment import Deployment
from validate.numerics import judge
from validate.paths import Broken
from validate.paths.vllm.experts import SpecializedExperts
from validate.paths.vllm.source import opened

source, tp = opened(Path(sys.argv[1])), int(sys.argv[2])
recorder = recording.Recorder(driverless.prepare(source, "sm_103a"))
driverless.deploy(Deployment(tp, 1, False, ()))
adapter = SpecializedExperts()
for case in judge.cases(profiles.load(f"gb300-tp{tp}"), ["experts"]):
    call = judge.build(case) if case.inputs == "trained" else None
    if call is not None and adapter.missing(call, source) is None:
        with contextlib.suppress(Broken):
            adapter.compose(call.fresh(), lambda part, of: part.prepare(of.to("meta"), source).launch())
print(json.dumps(list(recorder.variants)))
"""


@pytest.mark.parametrize("tp", [8, 16])
def test_they_are_those_of_golden_but_for_what_publishes(tp: int, vllm_source: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(vllm_source), str(tp)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    bound = json.loads(done.stdout)
    known = golden.read(ROOT / "golden/kernels/sm_103a.json").variants
    persistent = [name for name in bound if name.startswith("experts/ExpertsKernel/")]
    others = set(bound) - set(persistent)
    assert others <= set(known)
    assert {name.split("/")[1] for name in others} >= {f"ClusterExpertsTP{tp}", "ExpertsGroupKernel", "RouteSitu"}
    written = [name for name in persistent if name in known]
    published = {re.sub("publish=[^,]*", "", name) for name in known if "publish=0" not in name}
    assert all(re.sub("publish=[^,]*", "", name) in published for name in persistent if name not in known)
    rows = [int(re.search("batch=([0-9]+)", name)[1]) for name in written]  # type: ignore[index]
    assert rows == ([2, 3, 4] if tp == 8 else [3, 4, 5, 6, 7, 8])
