"""The trials on paper: names, controls, and that every change fits vLLM's files."""

import importlib.util
from pathlib import Path

import pytest

from validate.errors import InputError
from validate.paths.vllm.edits import Change, Moved, copied
from validate.races.gpu import plan
from validate.races.gpu.faults import FAULTS
from validate.races.gpu.sanitizer import CONTROLS
from validate.races.gpu.stalls import STALLS


def test_names_are_unique() -> None:
    names = [trial.name for trial in plan.TRIALS]
    assert len(set(names)) == len(names)


def test_every_fault_and_every_delay_is_used() -> None:
    assert {trial.fault for trial in plan.TRIALS} | {fault for *_, fault in CONTROLS} == set(FAULTS)
    assert {trial.stall for trial in plan.TRIALS} - {None} == set(STALLS)


def test_a_delay_and_its_fault_are_in_the_same_file() -> None:
    for trial in plan.TRIALS:
        if trial.stall is not None:
            assert STALLS[trial.stall].change.file == FAULTS[trial.fault].change.file, trial.name


def test_words_select_trials() -> None:
    assert {trial.kernel for trial in plan.chosen("kda and poisoned")} == {"kda"}
    with pytest.raises(InputError, match="-k 'nothing' selects none of"):
        plan.chosen("nothing")


@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")
def test_every_kernel_and_every_adversary_is_there() -> None:
    from validate.races.gpu.adversaries import ADVERSARIES
    from validate.races.gpu.kernels import KERNELS

    assert {trial.kernel for trial in plan.TRIALS} == set(KERNELS)
    assert {trial.adversary for trial in plan.TRIALS} | {"undisturbed"} == set(ADVERSARIES)


def test_every_change_fits_vllms_files(vllm_source: Path) -> None:
    for trial in plan.TRIALS:
        wanted = [*([STALLS[trial.stall].change] if trial.stall else []), FAULTS[trial.fault].change]
        texts = {change.file: (vllm_source / change.file).read_text() for change in wanted}
        for change in wanted:
            for old, new in change.replacements.items():
                assert old in texts[change.file], (trial.name, old)
                texts[change.file] = texts[change.file].replace(old, new)
        for file, text in texts.items():
            compile(text, file, "exec")


def test_a_text_that_is_not_there_is_said(vllm_source: Path, tmp_path: Path) -> None:
    file = FAULTS["kda-wait"].change.file
    with pytest.raises(Moved, match="has no 'nowhere'"):
        copied(vllm_source, tmp_path, Change(file, {"nowhere": "there"}))
