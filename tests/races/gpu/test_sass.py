"""Instructions at a race's places, and which pair of them is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from validate.races.gpu import sass
from validate.races.gpu.record import Report

NAME = "kernel_cutlass_x"
ARMS = "@!UP0 SYNCS.EXCH.64 URZ, [UR6+0x700], UR4", "@!P1 SYNCS.ARRIVE.TRANS64 RZ, [UR6+0x700], R2"
LINES = f"""	.section	.text.{NAME},"ax",@progbits
.text.{NAME}:
        /*00f0*/              @!UP0 USHF.L.U32 UR4, UR4, 0x1, URZ ;
        /*0100*/              {ARMS[0]} ;
        /*0110*/              {ARMS[1]} ;
.L_x_0:
        /*0120*/                   EXIT ;
"""


def report(severity: str = "warning", *places: str) -> Report:
    made = {"severity": severity, "text": "a race", "kernel": NAME, "count": 2, "places": places or ("0x100", "0x110")}
    return Report.model_validate(made)


def test_instructions_are_read() -> None:
    assert sass.parsed(LINES)[NAME] == {
        0xF0: "@!UP0 USHF.L.U32 UR4, UR4, 0x1, URZ",
        0x100: ARMS[0],
        0x110: ARMS[1],
        0x120: "EXIT",
    }


def test_an_mbarriers_initialisation_and_first_arrival_are_no_race() -> None:
    found = sass.explained(report(), sass.parsed(LINES))
    assert found.places == (f"+0x100 {ARMS[0]}", f"+0x110 {ARMS[1]}")
    assert found.explained == sass.ARMED


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ("TRANS64 RZ, [UR6+0x700]", "TRANS64 RZ, [UR6+0x708]", ("0x100", "0x110")),  # another barrier
        ("EXCH.64 URZ", "EXCH.32 URZ", ("0x100", "0x110")),
        ("SYNCS.ARRIVE.TRANS64 RZ", "LDS R3", ("0x100", "0x110")),
        ("", "", ("0x110", "0x100")),  # the arrival first
        ("/*0110*/", "/*0110*/ @P0 BRA `(.L_x_0) ;\n/*0130*/", ("0x100", "0x130")),  # no straight line
    ],
)
def test_another_pair_is_told_and_not_explained(old: str, new: str, places: tuple[str, str]) -> None:
    found = sass.explained(report("warning", *places), sass.parsed(LINES.replace(old, new)))
    assert found.places[0].startswith(f"+{places[0]} ")
    assert found.explained is None


def test_what_racecheck_calls_an_error_is_not_explained() -> None:
    assert sass.explained(report("error"), sass.parsed(LINES)).explained is None


def test_unknown_places_stay_as_they_are() -> None:
    assert sass.explained(report("warning", "0x100", "0x900"), sass.parsed(LINES)) == report("warning", "0x100", "0x900")
    assert sass.explained(report(), {}) == report()


def missing(place: str, text: str = "Barrier error detected. Missing wait.") -> Report:
    return report("error", place).model_copy(update={"text": text})


def test_no_wait_is_missing_before_an_mbarriers_first_arrival() -> None:
    found = sass.explained(missing("0x110"), sass.parsed(LINES))
    assert found.places == (f"+0x110 {ARMS[1]}",)
    assert found.explained == sass.FIRST


@pytest.mark.parametrize(
    ("old", "new", "place", "text"),
    [
        ("EXCH.64 URZ, [UR6+0x700]", "EXCH.64 URZ, [UR6+0x708]", "0x110", "Missing wait"),  # another's initialisation
        ("", "", "0x100", "Missing wait"),  # no arrival
        ("", "", "0x110", "Barrier error detected. Divergent thread(s) in block."),
        ("/*0110*/", "/*0110*/ BAR.SYNC 0x0 ;\n/*0130*/", "0x130", "Missing wait"),  # others may have arrived
        ("/*0110*/", f"/*0110*/ {ARMS[1]} ;\n/*0118*/", "0x118", "Missing wait"),  # the second arrival
    ],
)
def test_another_missing_wait_is_told_and_not_explained(old: str, new: str, place: str, text: str) -> None:
    found = sass.explained(missing(place, text), sass.parsed(LINES.replace(old, new)))
    assert found.places[0].startswith(f"+{place} ")
    assert found.explained is None


REPORTED = [  # on an H200, by nvidia-cutlass-dsl 4.8.0
    ("attn_res", {"slots": 8, "rows": 2}, [("0x100", "0x110"), ("0x120", "0x130")]),
    ("kda", {"tp": 16, "rows": 4}, [("0x300", "0x330"), ("0x2a0", "0x2b0")]),
    ("mla_query", {"tp": 16, "rows": 2}, [("0x240",)]),
]


@pytest.mark.skipif(sass.program() is None, reason="nvdisasm is not there")
@pytest.mark.parametrize(("kernel", "sizes", "places"), REPORTED)
def test_what_was_reported_on_vllms_kernels_is_explained(
    tmp_path: Path, vllm_source: Path, kernel: str, sizes: dict[str, int], places: list[tuple[str, ...]]
) -> None:
    pytest.importorskip("cutlass")
    kept = {"CUTE_DSL_KEEP_CUBIN": "1", "CUTE_DSL_DUMP_DIR": str(tmp_path), "CUTE_DSL_ARCH": "sm_90a"}
    command = [sys.executable, "-m", "tests.races.gpu.launches", str(vllm_source), kernel, json.dumps(sizes)]
    subprocess.run(command, env={**os.environ, **kept}, check=True, timeout=300)
    code = sass.read(tmp_path)
    assert code
    for name in code:
        for there in places:
            one = report("warning", *there) if len(there) == 2 else missing(*there)
            found = sass.explained(one.model_copy(update={"kernel": name}), code)
            assert found.explained == (sass.ARMED if len(there) == 2 else sass.FIRST), (name, there)
