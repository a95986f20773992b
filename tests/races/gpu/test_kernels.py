"""Without a GPU: what is launched is what was compiled, copies compile, and so do the suite's own kernels."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from validate.kernels import needs

pytestmark = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")


def ran(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.races.gpu.launches", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_kernel_is_one_launch_of_what_was_compiled(vllm_source: Path) -> None:
    said = ran(str(vllm_source)).splitlines()
    kernels = {line.partition(":")[0] for line in said}
    assert kernels == {
        "attn_res ClusterAttnRes",
        "route RouteSitu",
        "situ RouteSitu",
        "kda KdaSplit",
        "dense_situ DenseSitu",
        "skinny CuteSkinnyGemm",
        "mla_query MlaQuery",
        "mla_value MlaValue",
        "o_proj OprojProducer",
        "embedding EmbeddingGather",
    }
    assert all(line.endswith(": as compiled") for line in said), said


@pytest.mark.parametrize(
    ("trial", "sound", "control"),
    [
        (
            "kda/tp8-rows32/predecessor/kda-main-wait",
            {"dependency": 3, "cluster": 2, "delays": 0},
            {"dependency": 2, "cluster": 2, "delays": 0},
        ),
        (
            "mla_query/tp16-rows2/poisoned/query-start/query-cluster-wait",
            {"dependency": 1, "cluster": 1, "delays": 2},
            {"dependency": 1, "cluster": 0, "delays": 2},
        ),
    ],
)
def test_copies_compile_without_what_is_taken_out(
    vllm_source: Path, trial: str, sound: dict[str, int], control: dict[str, int]
) -> None:
    assert json.loads(ran(str(vllm_source), trial).splitlines()[-1]) == [sound, control]


MARKS = {
    "scatter": ["ld.relaxed.sys.global", "%globaltimer", "st.relaxed.sys.global"],
    "predecessor": ["griddepcontrol.launch_dependents", "%globaltimer", "st.relaxed.sys.global"],
    "passing": ["griddepcontrol.launch_dependents"],
    "successor": ["griddepcontrol.wait", "ld.relaxed.sys.global", "st.relaxed.sys.global"],
    "hog": [".shared", "%globaltimer"],
    "poison": ["st.shared", "%globaltimer"],
}
COMPILES = """
import os, sys, tempfile
os.environ |= {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_KEEP_PTX": "1", "CUTE_DSL_DUMP_DIR": tempfile.mkdtemp()}
from importlib import import_module
print(import_module(f"validate.races.gpu.device.{sys.argv[1]}").compiled().__ptx__)
"""


@pytest.mark.parametrize("name", MARKS)
def test_our_own_kernels_do_things_in_order(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", COMPILES, name], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    body = done.stdout.partition(".reqntid")[2]
    places = [body.index(mark) for mark in MARKS[name]]
    assert places == sorted(places)
    assert ("griddepcontrol.wait" in body) == (name == "successor")
