"""Run records: what is written is read back, and damage is named by file and line."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from validate.errors import InputError
from validate.records import folder as records
from validate.records.model import Line, Manifest, verdict_of
from validate.verdict import Verdict


def test_round_trip(record: Path, manifest: Manifest) -> None:
    assert records.read_manifest(record) == manifest
    assert [line.verdict for line in records.read_lines(record)] == [Verdict.PASS, Verdict.FAIL]


def test_figures_that_json_has_no_numbers_for(record: Path, make_line: Callable[..., Line]) -> None:
    records.write_lines(record / records.MEASUREMENTS, [make_line(figure=math.nan), make_line(figure=math.inf)])
    nan, inf = (line.measurements[0] for line in records.read_lines(record))
    assert math.isnan(nan.figure)
    assert (nan.ratio, inf.ratio, nan.passed) == (math.inf, math.inf, False)


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path) -> None:
    assert len({records.create(tmp_path, "cpu") for _ in range(3)}) == 3


def test_appended_lines_are_there_at_once(record: Path, make_line: Callable[..., Line]) -> None:
    records.append(record / records.MEASUREMENTS, [make_line("kda/tp8-batch2/trained/s1")])
    assert len(records.read_lines(record)) == 3


def test_truncated_last_line(record: Path) -> None:
    path = record / records.MEASUREMENTS
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match=r"measurements.jsonl, line 2: truncated"):
        records.read_lines(record)
    assert len(records.read_lines(record, mend=True)) == 1


def test_damaged_line_is_named_and_never_mended(record: Path) -> None:
    path = record / records.MEASUREMENTS
    first, second = path.read_text().splitlines()
    path.write_text(first[:-9] + "\n" + second + "\n")
    for mend in (False, True):
        with pytest.raises(InputError, match=r"measurements.jsonl, line 1: "):
            records.read_lines(record, mend=mend)


def test_missing_field_is_named(record: Path) -> None:
    path = record / records.MEASUREMENTS
    fields = json.loads(path.read_text().splitlines()[0])
    del fields["subject"]
    path.write_text(json.dumps(fields) + "\n")
    with pytest.raises(InputError, match="line 1: subject"):
        records.read_lines(record)


def test_other_schema_version(record: Path) -> None:
    path = record / records.MANIFEST
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(InputError, match="schema version 99"):
        records.read_manifest(record)


def test_truncated_manifest(record: Path) -> None:
    path = record / records.MANIFEST
    path.write_text(path.read_text()[:100])
    with pytest.raises(InputError, match=r"manifest.json: "):
        records.read_manifest(record)


def test_no_record(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run record"):
        records.read_manifest(tmp_path)


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        records.create(tmp_path / "file", "cpu")


def test_a_failed_write_keeps_the_old_file(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match="No space left"):
        records.write_lines(record / records.MEASUREMENTS, [])
    assert len(records.read_lines(record)) == 2


def test_verdict_of_a_run(make_line: Callable[..., Line]) -> None:
    good, bad = make_line(), make_line(figure=2.0)
    missing = good.model_copy(update={"missing": "not at this size", "measurements": ()})
    lost = good.model_copy(update={"error": "worker crashed", "measurements": ()})
    assert verdict_of([good], 1) is Verdict.PASS
    assert verdict_of([good], 2) is Verdict.INVALID
    assert verdict_of([good, bad], 1) is Verdict.FAIL
    assert verdict_of([good, lost], 1) is Verdict.INVALID
    assert verdict_of([missing], 1) is Verdict.INVALID
    assert verdict_of([good, missing], 1) is Verdict.PASS
    assert verdict_of([], 0) is Verdict.INVALID


def test_on_gb300_only_whole_stages_by_the_specialized_kernels_count(make_line: Callable[..., Line]) -> None:
    ids = ("kda/tp8-batch1/trained/s0", "kda/tp8-batch2/trained/s0")
    kernels = [make_line(case, subject="vllm-specialized") for case in ids]
    assert verdict_of(kernels, 2, "gb300") is Verdict.PASS
    composed = [kernels[0], kernels[1].model_copy(update={"note": "core emulated"})]
    assert verdict_of(composed, 2, "gb300") is Verdict.INCONCLUSIVE
    missing = [kernels[0], kernels[1].model_copy(update={"missing": "no adapter", "measurements": ()}), make_line(ids[1])]
    assert verdict_of(missing, 2, "gb300") is Verdict.INCONCLUSIVE
    assert verdict_of(missing, 2, "hopper") is Verdict.PASS
    failing = [make_line(ids[0], subject="vllm-specialized", figure=2.0), composed[1]]
    assert verdict_of(failing, 2, "gb300") is Verdict.FAIL
