"""A set in parts, DeepMind's MRCR: any of its files in one folder, or a line that says what is wrong. The rows are made up."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from evals.data import comma_separated, loading, pin
from evals.data.sources import MRCR_V2
from tests.evals import made_up
from validate.errors import InputError

pytest.importorskip("datasets")
WHAT = "seven rows"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made_up.deepmind_files(tmp_path)
    pin.pin("mrcr_v2", tmp_path, WHAT)
    return tmp_path


def names(folder: Path) -> list[str]:
    return [path.name for path in loading.given(MRCR_V2, folder)]


def refused(folder: Path | None) -> str:
    with pytest.raises(InputError) as error:
        loading.load(MRCR_V2, folder)
    assert "\n" not in str(error.value)
    assert "Write a" not in str(error.value)
    return str(error.value)


def test_all_files_of_a_folder_are_the_set_in_the_order_of_needles_and_lengths(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("not of the set")
    loaded = loading.load(MRCR_V2, folder)
    lengths = [int(row["context_len"]) for row in loaded.rows]
    assert lengths == [8100, 8101, 8102, 32703, 32704, 16385, 16386]
    assert loaded.identity == WHAT


def test_without_the_files_it_is_said_where_they_are(tmp_path: Path) -> None:
    said = refused(None)
    assert said.startswith("mrcr_v2 is not on the hub: download https://storage.googleapis.com/mrcr_v2/mrcr_v2p1_")
    assert said.endswith("give their folder with --data DIR")
    assert refused(tmp_path).startswith(
        f"{tmp_path} holds no mrcr_v2p1_*.csv of mrcr_v2; they are https://storage.googleapis.com/"
    )


def test_without_a_pin_it_is_said_how_to_make_one(tmp_path: Path) -> None:
    made_up.deepmind_files(tmp_path)
    assert (
        f"{tmp_path} is not the published file, and there is no pin of it: python -m evals.data.pin mrcr_v2 {tmp_path}"
        in refused(tmp_path)
    )


def test_a_file_too_few_is_named_by_its_rows(folder: Path) -> None:
    (folder / names(folder)[1]).unlink()
    assert refused(folder) == f"{folder}: 5 rows, 7 are in {WHAT}"


def test_a_changed_row_is_named_with_its_file(folder: Path) -> None:
    file = folder / names(folder)[2]
    file.write_text(file.read_text().replace("16386", "16384"))
    assert refused(folder) == f"{folder}: 1 of 7 rows are not those of {WHAT}, the first of them row 2 of {file.name}"


def test_rows_that_two_files_share_are_refused(folder: Path) -> None:
    """As the cumulative files' may be: counted twice, they would pass for further items."""
    shared = folder / made_up.FILE.format(needles=8, bin="upto_128K")
    made_up.write(shared, [made_up.deepmind(9), made_up.deepmind(6, 16386)])
    said = refused(folder)
    assert f"row 2 of {shared.name} is row 2 of {names(folder)[2]} again" in said


def test_a_column_that_lacks_is_named(folder: Path) -> None:
    file = folder / names(folder)[0]
    rows = [{key: value for key, value in made_up.deepmind(n).items() if key != "num_relevant"} for n in range(3)]
    made_up.write(file, rows)
    assert refused(folder) == f"{file} lacks the column num_relevant of mrcr_v2"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-40],  # in a quoted text
        lambda content: content.rpartition(b",")[0],  # a field too few
        lambda content: content + b",9\n",  # one too many, and of a row of its own
        lambda content: content[:200] + b"\xff\xfe" + content[200:],  # no UTF-8
        lambda content: b"",
        lambda content: content.partition(b"\r\n")[0],  # the head alone
    ],
)
def test_a_damaged_file_is_refused_in_one_line(folder: Path, damage) -> None:
    file = folder / names(folder)[0]
    file.write_bytes(damage(file.read_bytes()))
    said = refused(folder)
    assert said.startswith(f"{file} cannot be read as csv") or said == f"mrcr_v2: no rows in {file}"


def test_rows_cut_off_between_two_of_them_are_refused(folder: Path) -> None:
    file = folder / names(folder)[0]
    made_up.write(file, [made_up.deepmind(n, 8100 + n) for n in range(2)])
    assert refused(folder) == f"{folder}: 6 rows, 7 are in {WHAT}"


def test_texts_of_megabytes_are_read(tmp_path: Path) -> None:
    file = tmp_path / made_up.FILE.format(needles=2, bin="in_(524288,1048576)")
    made_up.write(file, [made_up.deepmind(0, 1_000_000, 'A "tale",\n' * 400_000)])
    before = csv.field_size_limit()
    pin.pin("mrcr_v2", tmp_path, WHAT)
    assert len(loading.load(MRCR_V2, tmp_path).rows[0]["queries"]) > 4_000_000
    assert csv.field_size_limit() == before


def test_a_field_above_the_limit_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comma_separated, "LARGEST", 100)
    assert refused(folder) == f"{folder / names(folder)[0]} cannot be read as csv (ValueError): is it cut off?"


def test_pinning_refuses_with_exit_code_3(folder: Path) -> None:
    file = folder / names(folder)[0]
    file.write_bytes(file.read_bytes()[:-40])
    command = [sys.executable, "-m", "evals.data.pin", "mrcr_v2", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 3
    assert ended.stderr == f"error: {file} cannot be read as csv (ValueError): is it cut off?\n"
