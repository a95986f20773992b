"""The report in its four forms: the decision first, whatever a record says as text, and no larger than it may be."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.signoff.made import CPU, IMAGE, changed, evidence, finding, gathered, table, whole
from tests.support import ROOT
from validate.records.model import NotRun
from validate.report.console import console
from validate.signoff import junit, markdown, report, session
from validate.signoff.evidence import Line, Lines, Source
from validate.signoff.reading import engines, evals
from validate.verdict import Verdict

html = pytest.importorskip("validate.signoff.html")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

HOSTILE = '<script>alert(1)</script>\u202egnp.exe\x1b[31m\' onload="x" {{ 7*7 }} $\\frac{1}{2}$'


def test_with_everything_there_it_may_be_signed() -> None:
    made = report.made(gathered(whole()), None)
    assert (made.verdict, made.exit_code, made.title) == (Verdict.PASS, 0, "May be signed")
    assert "Not signed" not in html.render(made)
    assert "vLLM's kernels on GB300" in made.ran()
    assert "not: vLLM's kernels on a Hopper GPU" in made.ran()


def test_the_first_screen_says_what_the_records_are_of() -> None:
    made = report.made(gathered(whole()), None)
    assert report.identity(made)[0] == ("image", IMAGE)
    assert report.identity(made)[3:] == [
        ("arms", "all alike but for decode_backend"),
        ("engines", "tensor parallel 8, drafts none"),
        ("weights", "e" * 16),
        ("data", "aime25 a1, gpqa_diamond b2, gsm8k c3, mrcr_v2 d4"),
    ]
    page = html.render(made)
    assert page.index(IMAGE) < page.index("The four layers")


def test_the_first_screen_has_the_proof_and_the_answers_that_are_none() -> None:
    made = report.made(gathered(changed(evals.PART, failures="gsm8k 2 cut off and 1", attested=False, proof="3 of 9")), None)
    row = next(row for row in report.screen(made) if row[1] == evals.PART)
    assert row[-2:] == ("not attested: 3 of 9", "gsm8k 2 cut off and 1")
    for text in (html.render(made), markdown.render(made)):
        assert text.index("not attested: 3 of 9") < text.index("Why it is not signed")


def test_a_layer_with_a_reason_against_it_is_no_pass() -> None:
    made = report.made(gathered([one for one in whole() if one.part != engines.COMPANY]), None)
    assert [made.judged(layer) for layer in ("numerics", "races", "equivalence", "evals")] == ["PASS", "INVALID", "PASS", "PASS"]


def test_an_image_of_no_record_is_said_to_be_none() -> None:
    made = report.made(gathered([evidence(runs_on="emulated", machine=CPU)]), IMAGE)
    assert report.identity(made)[0] == ("image", f"of no record; asked for: {IMAGE}")


def test_what_was_not_run_is_listed_in_every_form() -> None:
    given = [one.model_copy(update={"not_run": (NotRun(what="dcp", why="one GPU"),)}) for one in whole()[:1]]
    made = report.made(replace(gathered(given), left_out=("20260101-bench",)), None)
    rows = report.not_run(made).rows
    assert ("numerics", "dcp", "one GPU") in rows
    assert ("races", "compute-sanitizer", "no record was given; it is not asked for") in rows
    assert ("equivalence", "planted faults", "no record of --faults was given") in rows
    assert ("numerics", "planted faults", "no record of --faults was given") not in rows  # there is its matrix
    assert ("-", "20260101-bench", "its record says nothing that a release is judged by") in rows
    for text in (html.render(made), markdown.render(made)):
        assert "20260101-bench" in text


def test_every_form_leads_with_the_decision_and_why() -> None:
    check = finding(Verdict.FAIL, "gsm8k: 96.1 against 98.0, margin 1.5")
    made = report.made(gathered(changed(evals.PART, verdict=Verdict.FAIL, checks=(check,))), None)
    for text in (markdown.render(made), html.render(made)):
        assert "Not signed" in text[:9000]
        assert "gsm8k: 96.1 against 98.0, margin 1.5" in text
    root = ET.fromstring(junit.render(made))
    assert len(root.findall(".//failure")) == 1
    assert root.find(".//failure").get("message") == "failed: FAIL gsm8k: 96.1 against 98.0, margin 1.5"  # type: ignore[union-attr]


def test_a_refusal_is_no_pass_in_junit() -> None:
    made = report.made(gathered(changed(engines.WHOLE, attested=False)), None)
    assert len(ET.fromstring(junit.render(made)).findall(".//error")) == 1


def test_what_a_record_says_is_text() -> None:
    check = finding(Verdict.FAIL, HOSTILE)
    given = changed(
        engines.LONG, headline=HOSTILE, ran=HOSTILE, verdict=Verdict.FAIL, checks=(check,), tables=(table(3, HOSTILE),)
    )
    page = html.render(report.made(gathered(given), None))
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "[U+202E]" in page
    assert "{{ 7*7 }}" in page


def test_neither_markdown_nor_junit_nor_a_terminal_takes_it_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    text = HOSTILE + "\n\n# May be signed: PASS\n\n[a](javascript:b) `c` \\| d | e [/red]\x00"
    check, source = finding(Verdict.FAIL, text), Source(name=text, digest="a" * 64, verified=True)
    changes: dict[str, Any] = {"headline": text, "ran": text, "source": source, "verdict": Verdict.FAIL, "checks": (check,)}
    made = report.made(gathered(changed(engines.LONG, **changes, tables=(table(1, text),))), None)
    said = markdown.render(made)
    assert [line for line in said.splitlines() if line.startswith("# ")] == ["# Not signed: FAIL"]
    assert "<script" not in said
    assert "](javascript" not in said.replace("\\]", "")
    for line in said.split("### Items\n\n")[1].splitlines()[:3]:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3  # pipes that are not escaped: two columns
    ET.fromstring(junit.render(made))
    session.show(made, console())
    shown = capsys.readouterr().out
    assert "[/red]" in shown
    for hidden in ("\x1b[31m", "\u202e", "\x00"):
        assert hidden not in said + shown


def test_labels_of_a_plot_are_text_too() -> None:
    plots = whole()[0].plots[0]
    named = plots.model_copy(update={"boxes": tuple(box.model_copy(update={"label": HOSTILE}) for box in plots.boxes)})  # type: ignore[union-attr]
    page = html.render(report.made(gathered(changed("numerics", plots=(named,))), None))
    assert page.count("<script>") == 1


def test_values_that_cannot_be_drawn_are_no_end_of_the_report() -> None:
    none = Lines(title="Apart", x_axis="position", y_axis="nats", lines=())
    endless = Lines(title="Apart", x_axis="position", y_axis="nats", lines=(Line(name="a", x=(0, float("inf")), y=(1, 1)),))
    page = html.render(report.made(gathered(changed(engines.LONG, plots=(none, endless))), None))
    assert page.count("cannot be drawn") == 2


def test_a_long_text_is_cut_and_says_so() -> None:
    page = html.render(report.made(gathered(changed(engines.LONG, headline="a" * 10_000_000)), None))
    assert len(page) < 500_000
    assert "9,998,000 more characters" in page


def test_the_page_needs_no_network() -> None:
    page = html.render(report.made(gathered(whole()), None))
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)[^"']*["']""", page)
    assert "url(http" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert len(re.findall(r"<svg ", page)) == 3
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_twenty_thousand_items_fit(tmp_path: Path) -> None:
    session.write(tmp_path, report.made(gathered(changed(evals.PART, tables=(table(20_000),))), None))
    assert (tmp_path / "report.html").stat().st_size < 3_000_000
    assert (tmp_path / "SHA256SUMS").is_file()


def test_the_json_file_is_of_the_published_schema(tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs/signoff.schema.json").read_text())
    assert schema == json.loads(report.schema()), "python -m validate.signoff.report > docs/signoff.schema.json"
    session.write(tmp_path, report.made(gathered(whole()), None))
    again = report.Report.model_validate_json((tmp_path / "report.json").read_text())
    assert again.verdict is Verdict.PASS
    assert set(json.loads((tmp_path / "report.json").read_text())) == set(schema["properties"])


def test_published_figures_are_told_apart_by_metric_and_from_what_was_measured() -> None:
    made = report.made(gathered(whole()), None)
    tables = report.published(made)
    assert {table.title for table in tables} >= {"decode throughput, tokens/s", "time to first token, ms"}
    assert all(row[4] == "-" and row[5] for table in tables for row in table.rows)
    for text in (markdown.render(made), html.render(made)):
        assert "specialized 842, default 488, ratio 1.73" in text


def test_it_is_shown_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    session.show(report.made(gathered(changed(engines.WHOLE, attested=False)), None), console())
    said = capsys.readouterr().out
    assert "unattested: equivalence, whole engines run of whole engines: its steps are not shown" in said
