"""compute-sanitizer's output as its manual shows it, written by hand: reports on vLLM's kernels, and what is no result."""

from pathlib import Path

import pytest

from tests.races.gpu.test_sass import ARMS
from validate.errors import InputError
from validate.model.dimensions import K3
from validate.races.gpu import judging, sanitizer
from validate.races.gpu.record import Asked

NAME = "kernel_cutlass_kernel_vllmmodels_KdaSplit_0"
CLEAN = "========= COMPUTE-SANITIZER\nlaunched\n========= ERROR SUMMARY: 0 errors\n"
MEMCHECK = f"""========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 16 bytes
=========     at {NAME}+0x1b20
=========     by thread (0,0,0) in block (6,1,0)
=========     Access at 0x7f2e40000000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2e3ff00000 of size 229376 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernelEx [0x2f1234] in libcuda.so.1
=========
========= Invalid __global__ write of size 16 bytes
=========     at {NAME}+0x1b20
=========     by thread (1,0,0) in block (6,1,0)
=========     Access at 0x7f2e40000010 is out of bounds
=========
========= Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to "invalid argument" on CUDA API call to cuGetProcAddress_v2.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = f"""========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at {NAME}+0x5b0
=========     and Read access at {NAME}+0x7a0 [512 hazards]
=========
========= Warning: Race reported between Read access at {NAME}+0x10
=========     and Write access at {NAME}+0x20 [4 hazards]
=========
launched
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
SYNCCHECK = f"""========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at {NAME}+0xd0
=========     by thread (128,0,0) in block (0,0,0)
=========
launched
========= ERROR SUMMARY: 1 error
"""
INITCHECK = f"""========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)+0x70
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at 0x70 in {NAME}
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
launched
========= ERROR SUMMARY: 2 errors
"""
UNSUPPORTED = """========= COMPUTE-SANITIZER
========= Error: Device not supported. Please refer to the "Supported Devices" section of the sanitizer documentation
=========
========= ERROR SUMMARY: 1 error
"""


def told(text: str) -> list[tuple[str, str, int]]:
    reports, lost = sanitizer.parsed(text)
    assert lost is None
    assert all(report.kernel == NAME for report in reports)
    return [(report.severity, report.text, report.count) for report in reports]


def test_silence_is_no_report() -> None:
    assert told(CLEAN) == []


def test_equal_reports_are_counted_and_refused_calls_are_none() -> None:
    assert told(MEMCHECK) == [("error", "Invalid __global__ write of size 16 bytes", 2)]


def test_races_have_a_severity() -> None:
    assert told(RACECHECK) == [
        ("error", "race between a write and a read access", 1),
        ("warning", "race between a read and a write access", 1),
    ]
    assert [report.places for report in sanitizer.parsed(RACECHECK)[0]] == [("0x5b0", "0x7a0"), ("0x10", "0x20")]


def test_a_race_of_one_access_with_two_is_two() -> None:
    two = RACECHECK.replace(
        "0x7a0 [512 hazards]\n", f"0x7a0 [512 hazards]\n=========     and Write access at {NAME}+0x7b0 [8 hazards]\n"
    )
    assert [report.places for report in sanitizer.parsed(two)[0]] == [("0x5b0", "0x7a0"), ("0x5b0", "0x7b0"), ("0x10", "0x20")]


@pytest.mark.parametrize("worded", [f"at 0x5b0 in {NAME}", f"at {NAME}+0x5b0 (main.py:3)\n=========     and another\n"])
def test_a_race_that_is_worded_otherwise_is_one(worded: str) -> None:
    text = f"{CLEAN}========= Error: Race reported between Write access {worded}\n"
    assert [(severity, count) for severity, _, count in told(text)] == [("error", 1)]


def test_barriers() -> None:
    assert told(SYNCCHECK) == [("error", "Barrier error detected. Divergent thread(s) in block.", 1)]
    assert sanitizer.parsed(SYNCCHECK)[0][0].places == ("0xd0",)
    cut = SYNCCHECK.replace(f"=========     at {NAME}+0xd0\n", f"=========     {NAME}, somewhere\n")
    assert sanitizer.parsed(cut)[0][0].places == ()


def test_other_kernels_are_left_out() -> None:
    assert told(INITCHECK) == [("error", "Uninitialized __global__ memory read of size 4 bytes", 1)]


@pytest.mark.parametrize("text", ["", "Killed\n", "========= COMPUTE-SANITIZER\n", UNSUPPORTED])
def test_output_without_a_result(text: str) -> None:
    reports, lost = sanitizer.parsed(text)
    assert reports == ()
    assert lost


SAYS = """#!/bin/sh
if [ "$1" = --help ]; then echo '--kernel-regex arg'; exit 0; fi
cat {said}
exit 0
"""


def program(folder: Path, said: str) -> str:
    """Stands for compute-sanitizer."""
    (folder / "said").write_text(said)
    there = folder / "compute-sanitizer"
    there.write_text(SAYS.format(said=folder / "said"))
    there.chmod(0o755)
    return str(there)


FOREIGN = CLEAN + sanitizer.MOST * (
    "========= Uninitialized __global__ memory read of size 4 bytes\n=========     at void at::native::fill_kernel(int)+0x70\n"
)


@pytest.mark.parametrize(
    ("said", "reports", "lost"),
    [
        (FOREIGN, 0, "may have left others out"),
        (CLEAN, 0, None),
        (RACECHECK, 2, None),
        (CLEAN.replace("launched\n", ""), 0, "was not launched to its end"),
    ],
)
def test_a_session(tmp_path: Path, said: str, reports: int, lost: str | None) -> None:
    there = program(tmp_path, said)
    one = next(one for one in sanitizer.sessions("racecheck and kda") if one.fault is None)
    named = sanitizer.name_filter(there)
    assert named == "--kernel-regex"
    found = sanitizer.sanitized(one, Asked(vllm_src="nowhere"), there, named, tmp_path, 0)
    assert len(found.reports) == reports
    assert (found.lost is None) if lost is None else lost in str(found.lost)


def test_sessions_are_chosen_by_words_and_begin_with_the_controls() -> None:
    every = sanitizer.sessions(None)
    assert len({one.name for one in every}) == len(every)
    controls = [one.tool for one in every if one.fault is not None]
    assert sorted(controls) == sorted(sanitizer.TOOLS)
    assert [one.fault is not None for one in every[:5]] == [True, True, True, True, False]
    assert {one.tool for one in sanitizer.sessions("attn_res")} == set(sanitizer.TOOLS)


def test_a_race_is_told_with_its_instructions_and_one_that_is_explained_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = {NAME: {0x5B0: "STS [R1], R2", 0x7A0: "LDS R3, [R1]", 0x10: ARMS[0], 0x20: ARMS[1]}}
    monkeypatch.setattr(sanitizer.sass, "read", lambda folder: code)
    text = RACECHECK.replace("between Read", "between Write").replace("and Write", "and Read")
    one = next(one for one in sanitizer.sessions("racecheck and kda") if one.fault is None)
    found = sanitizer.sanitized(one, Asked(vllm_src="nowhere"), program(tmp_path, text), "--kernel-regex", tmp_path, 0)
    assert [report.places[0] for report in found.reports] == ["+0x5b0 STS [R1], R2", f"+0x10 {ARMS[0]}"]
    assert [report.explained is None for report in found.reports] == [True, False]
    assert "+0x7a0 LDS R3, [R1]" in judging.sanitized_why(found)
    assert "SYNCS" not in judging.sanitized_why(found)


def test_memcheck_pads_allocations_by_what_its_control_writes_beyond() -> None:
    assert "--padding" not in sanitizer.command("cs", "--kernel-regex", "racecheck", Path("order"))
    padded = sanitizer.command("cs", "--kernel-regex", "memcheck", Path("order"))
    assert int(padded[padded.index("--padding") + 1]) == 2 * K3.hidden


def test_only_what_sees_no_writes_is_confined_to_vllms_kernels() -> None:
    assert "kns=kernel_cutlass" in sanitizer.command("cs", "--kernel-regex", "memcheck", Path("order"))
    assert "kns=kernel_cutlass" not in sanitizer.command("cs", "--kernel-regex", "initcheck", Path("order"))


def test_without_the_program_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="compute-sanitizer"):
        sanitizer.found()
