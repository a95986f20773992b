"""What a CI server shows stays readable, and small enough to be shown at all."""

from pathlib import Path
from xml.etree import ElementTree as ET

from tests.gate.conftest import Place
from tests.gate.steps import step
from validate.gate import findings, summary

MIB = 2**20  # GitHub's limit of a step's summary


def test_ten_megabytes_of_anything_fit(place: Place) -> None:
    there = place.begin(*(step(f"s{n}", "FAIL,huge") for n in range(3)), keep_going=True)
    assert place.run(there)[0] == 1
    assert (there / "s0" / "log.txt").stat().st_size > 10 * MIB
    assert (there / "s0" / "record" / "summary.md").stat().st_size > 9 * MIB
    text = (there / "summary.md").read_text()
    assert 100_000 < len(text.encode()) < MIB
    head = text[:4000]
    assert head.startswith("# FAIL: gate mine")
    assert "| s2 | FAIL |" in head
    assert "s0: FAIL kda/tp16-batch1 emulated-specialized: out rounding 120.8 > 1" in head
    assert f"bytes are shown, all of it is in {there}/s0/record/summary.md" in text
    assert "What follows was cut" in text
    ET.parse(there / "junit.xml")
    assert len((there / "junit.xml").read_bytes()) < 50_000


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert summary.fence("a ```` b") == "`````text\na ```` b\n`````"


def test_what_is_cut_is_said() -> None:
    assert summary.cut("éé", 4, "x") == "éé"
    assert summary.cut("ééé", 5, "x") == "éé\n… cut: 4 of 6 bytes are shown, all of it is in x"


def test_findings_of_an_earlier_call_count_for_nothing(tmp_path: Path) -> None:
    made = tmp_path / "compare" / "junit.xml"
    made.parent.mkdir()
    made.write_text('<a><testcase classname="c" name="n"><failure type="FAIL" message="m"/></testcase></a>')
    at = made.stat().st_mtime
    assert findings.failed(tmp_path, at) == ["FAIL c n: m"]
    assert findings.failed(tmp_path, at + 1) == []
    made.write_text("<a>")
    assert findings.failed(tmp_path, at) == []
