"""Bad input: one line on standard error, exit code 3, no traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Tool
from validate import cli
from validate.records import folder as records
from validate.records import provenance
from validate.records.model import Line, Manifest

SAME_CODE = {"source": provenance.source(), "versions": provenance.versions()}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["numerics", "--profile", "nothing"], "unknown profile 'nothing'"),
        (["numerics", "--profile", "nothing.toml"], "cannot read the profile"),
        (["numerics", "-k", "no-such-case"], "selects none"),
        (["numerics", "-k", "kda and"], "something is missing beside and, or, not"),
        (["numerics", "-k", "kda or not"], "something is missing beside and, or, not"),
        (["numerics", "--plant", "kda.nothing"], "unknown fault 'kda.nothing'"),
        (
            ["numerics", "--plant", "attn_res.cross-term-once", "-k", "final_norm/batch4"],
            "no selected case runs the stage of the planted fault attn_res.cross-term-once",
        ),
        (["numerics", "--faults", "-k", "no-such-fault"], "selects none"),
        (["numerics", "--output", "/proc/runs"], "cannot write"),
        (["numerics", "--output", "/dev/null"], "cannot write"),
        (["numerics", "--resume", "nowhere"], "no run record"),
        (["numerics", "--seeds", "0"], "seeds"),
        (["numerics", "--surprise"], "--surprise"),
        (["numerics", "--vllm-src", "/nowhere"], "vllm"),
        (["show", "nowhere"], "no run record"),
        (["diff", "nowhere", "nowhere"], "no run record"),
    ],
)
def test_refused(tool: Tool, arguments: list[str], says: str) -> None:
    assert says in tool.refused(*arguments)
    assert not list(tool.cwd.glob("runs/*"))


def test_malformed_profile(tool: Tool) -> None:
    (tool.cwd / "mine.toml").write_text('description = "x"\nseeds = "many"\n')
    assert "seeds" in tool.refused("numerics", "--profile", "mine.toml")


def test_show_and_diff_of_a_truncated_record(tool: Tool, record: Path) -> None:
    path = record / records.MEASUREMENTS
    path.write_text(path.read_text()[:-5])
    assert "line 2: truncated" in tool.refused("show", str(record))
    assert "line 2: truncated" in tool.refused("diff", str(record), str(record))


def test_show_of_an_unfinished_record(tool: Tool, record: Path) -> None:
    done = tool("show", str(record))
    assert done.returncode == 0
    assert done.stdout.startswith("# INVALID")


def test_resume_with_other_code(tool: Tool, record: Path) -> None:
    assert "the source differ" in tool.refused("numerics", "--resume", str(record))


def test_resume_of_a_bench_record_alters_nothing(tool: Tool, record: Path, manifest: Manifest) -> None:
    arguments = manifest.arguments.model_copy(update={"mode": "bench"})
    records.write_manifest(record, manifest.model_copy(update={"arguments": arguments} | SAME_CODE))
    before = {path.name: path.read_bytes() for path in record.iterdir()}
    assert "it records bench" in tool.refused("numerics", "--resume", str(record))
    assert {path.name: path.read_bytes() for path in record.iterdir()} == before


def test_what_is_refused_loses_no_error_that_was_recorded(tool: Tool, record: Path, make_line: Callable[..., Line]) -> None:
    records.append(
        record / records.MEASUREMENTS, [make_line("kda/tp8-batch3/trained/s0").model_copy(update={"error": "out of memory"})]
    )
    before = (record / records.MEASUREMENTS).read_bytes()
    manifest = records.read_manifest(record)
    records.write_manifest(record, manifest.model_copy(update=SAME_CODE))
    assert "another keyword" in tool.refused("numerics", "--resume", str(record), "-k", "mla")
    assert (record / records.MEASUREMENTS).read_bytes() == before


def test_an_error_of_the_project_s_own_is_no_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(**_: object) -> int:
        raise KeyError("a bug")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    assert "KeyError: 'a bug'" in capsys.readouterr().err
