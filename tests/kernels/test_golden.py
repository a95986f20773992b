"""Golden files: what is written is read, and what differs is named by kernel and instruction."""

from pathlib import Path

import pytest

from validate.errors import InputError
from validate.kernels import golden
from validate.kernels.golden import Golden
from validate.kernels.ptx import ORDER

WAIT = "griddepcontrol.wait"
VARIANTS = {
    "kda/KdaSplit/heads=6,batch=1": {WAIT: 4, "registers": 80, ORDER: "aa"},
    "kda/KdaSplit/heads=6,batch=2": {WAIT: 4, "registers": 96, ORDER: "aa"},
    "mla/MlaValue/batch=1": {WAIT: 1, "registers": 40, ORDER: "bb"},
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "sm_103a.json"
    golden.write(file, Golden({"profile": "cpu"}, VARIANTS))
    assert golden.read(file) == Golden({"profile": "cpu"}, VARIANTS)
    assert golden.compare(golden.read(file).variants, VARIANTS) == []
    assert len([line for line in file.read_text().splitlines() if "heads=6" in line]) == 2


def test_a_lost_wait_is_one_line_that_names_kernel_and_instruction() -> None:
    here = {name: entry | ({WAIT: 3, ORDER: "cc"} if name.startswith("kda") else {}) for name, entry in VARIANTS.items()}
    found = golden.compare(VARIANTS, here)
    assert [str(difference) for difference in found] == [
        "kda/KdaSplit/heads=6,batch=1: griddepcontrol.wait: golden 4, here 3",
        "kda/KdaSplit/heads=6,batch=2: griddepcontrol.wait: golden 4, here 3",
    ]
    assert golden.grouped(found) == ["kda/KdaSplit/heads=6,batch=1 and 1 more: griddepcontrol.wait: golden 4, here 3"]


def test_an_instruction_on_one_side_only_differs() -> None:
    gained = {"mla/MlaValue/batch=1": VARIANTS["mla/MlaValue/batch=1"] | {"cvt.rn.bf16.f32": 2}}
    assert [(d.what, d.golden, d.here) for d in golden.compare(VARIANTS, gained)] == [("cvt.rn.bf16.f32", "0", "2")]
    lost = {"mla/MlaValue/batch=1": {"registers": 40, ORDER: "bb"}}
    assert [(d.what, d.golden, d.here) for d in golden.compare(VARIANTS, lost)] == [(WAIT, "1", "0")]


def test_a_kernel_without_its_wait_is_two_lines() -> None:
    waits = {"a/b/c": {WAIT: 1, "grid dependency": "waited for", "exit without a wait": "no", "reads before the wait": "p1"}}
    found = golden.compare(waits, {"a/b/c": {"grid dependency": "none"}})
    assert [d.what for d in found] == [WAIT, "grid dependency"]


def test_variants_that_are_alike_are_written_once(tmp_path: Path) -> None:
    alike = {f"kda/KdaSplit/batch={n}": {WAIT: 4, "registers": 80 + n // 3} for n in range(1, 5)}
    golden.write(tmp_path / "golden.json", Golden({}, alike))
    assert (tmp_path / "golden.json").read_text().count('"registers"') == 2
    assert golden.read(tmp_path / "golden.json").variants == alike


def test_another_order_alone_differs() -> None:
    here = {"mla/MlaValue/batch=1": VARIANTS["mla/MlaValue/batch=1"] | {ORDER: "dd"}}
    assert [d.what for d in golden.compare(VARIANTS, here)] == [ORDER]


def test_an_unknown_variant_differs() -> None:
    found = golden.compare(VARIANTS, {"mla/MlaValue/batch=9": {WAIT: 1}})
    assert [str(d) for d in found] == ["mla/MlaValue/batch=9: variant: golden does not know it, here compiled"]


@pytest.mark.parametrize("text", ["", "{}", '{"made_with": {}, "kernels": {"a/b": {"variants": {"c": {}}}}}', "[]"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "golden.json").write_text(text)
    with pytest.raises(InputError, match="is damaged"):
        golden.read(tmp_path / "golden.json")


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--update-golden"):
        golden.read(tmp_path / "none.json")
