"""Reports say what the record says: verdict first, failures with their command, no failure or gap as a pass."""

from collections.abc import Callable
from xml.etree import ElementTree as ET

from validate.numerics import junit
from validate.records.model import Line, Manifest, Measured, NotRun
from validate.report import failures, summary
from validate.report.compare import compare
from validate.verdict import Verdict

Make = Callable[..., Line]


def ended(manifest: Manifest, verdict: Verdict, planned: int = 1) -> Manifest:
    update = {"verdict": verdict, "exit_code": verdict.exit_code, "end": "2026-01-01T00:01:00Z", "planned": planned}
    return manifest.model_copy(update=update)


def without(line: Line, **update: str) -> Line:
    return line.model_copy(update={"measurements": (), **update})


def test_junit_maps_each_outcome(manifest: Manifest, make_line: Make) -> None:
    lines = [
        make_line(),
        make_line(subject="fails", figure=3.0),
        without(make_line(subject="crashes"), error="worker 'gw0' crashed \x1b <&>"),
        without(make_line(subject="absent"), missing="not at this size"),
    ]
    root = ET.fromstring(junit.render(ended(manifest, Verdict.FAIL), lines))
    outcomes = {test.get("name", "").split()[-1]: [child.tag for child in test] for test in root.iter("testcase")}
    assert outcomes == {"emulated-default": [], "fails": ["failure"], "crashes": ["error"], "absent": ["skipped"]}
    suite = root.find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]


def test_junit_of_an_interrupted_run_has_an_error(manifest: Manifest, make_line: Make) -> None:
    root = ET.fromstring(junit.render(manifest, [make_line()]))
    assert [error.get("message") for error in root.iter("error")] == ["1 of 2 cases were not reached"]


def test_summary_has_the_verdict_first_and_says_what_ran(manifest: Manifest, make_line: Make) -> None:
    done = ended(manifest, Verdict.PASS).model_copy(update={"not_run": (NotRun(what="gb300", why="no such machine"),)})
    text = summary.render(done, [make_line()])
    assert text.startswith("# PASS")
    assert "emulated in torch on a CPU" in text
    assert "can not sign off" in text
    assert "- gb300: no such machine" in text


def test_summary_says_what_could_not_have_failed(manifest: Manifest, make_line: Make) -> None:
    checks = [
        Measured(tensor="state", check="share", figure=0.2, bound=1.5, passed=True),
        Measured(tensor="out", check="share", figure=0.2, bound=0.4, passed=True),
        Measured(tensor="out", check="largest", figure=3.0, bound=20.0, passed=True),
    ]
    text = summary.render(ended(manifest, Verdict.PASS), [make_line().model_copy(update={"measurements": tuple(checks)})])
    assert "- share of emulated-default on kda's state, 1 of 1 cases" in text.split("## Could not have failed")[1]
    assert "| 0.50 | 0.15 |" in text  # the share of its bound that the other tensor's share takes, and the largest error
    assert "Could not have failed" not in summary.render(ended(manifest, Verdict.PASS), [make_line()])


def test_summary_says_that_interpreted_kernels_ran(manifest: Manifest, make_line: Make) -> None:
    both = manifest.model_copy(update={"subjects": (*manifest.subjects, "vllm-default")})
    assert "interpreted on a CPU" in summary.render(ended(both, Verdict.PASS), [make_line()])


def test_summary_names_composed_stages_and_the_emulation_beside_the_kernel(manifest: Manifest, make_line: Make) -> None:
    def measured(error: float) -> dict[str, tuple[Measured, ...]]:
        return {"measurements": (Measured(tensor="out", check="rounding", figure=0.5, bound=1, passed=True, error=error),)}

    ids = ("kda/tp8-batch1/trained/s0", "kda/tp8-batch2/trained/s0")
    lines = [make_line(case).model_copy(update=measured(1e-3)) for case in ids]
    kernels = [make_line(case, subject="vllm-default") for case in ids]
    lines += [kernel.model_copy(update=measured(e)) for kernel, e in zip(kernels, (1.1e-3, 1.3e-3), strict=True)]
    lines[-1] = lines[-1].model_copy(update={"note": "core emulated"})
    text = summary.render(ended(manifest, Verdict.PASS), lines)
    assert "- kda, vllm-default, 1 cases: core emulated" in text
    assert f"| kda | default | out | 2 | 0 | 1.100 | 1.300 | 1.300 | {ids[1]} |" in text


def test_summary_of_a_run_without_end_is_no_pass(manifest: Manifest, make_line: Make) -> None:
    assert summary.render(manifest, [make_line()]).startswith("# INVALID")


def test_summary_shouts_about_a_planted_fault(manifest: Manifest, make_line: Make) -> None:
    arguments = manifest.arguments.model_copy(update={"planted": "kda.x"})
    text = summary.render(manifest.model_copy(update={"arguments": arguments}), [make_line()])
    assert "`kda.x` was planted" in text


def test_a_failure_says_figure_bound_place_and_command(manifest: Manifest, make_line: Make) -> None:
    text = failures.describe(manifest, make_line("kda/tp8-batch2/trained/s4", figure=2.5))
    for part in ("FAIL", "tp 8, batch 2", "seed 4", "2.5, bound 1", "at row 0"):
        assert part in text
    assert "nox -s numerics -- --profile cpu -k 'kda/tp8-batch2/trained/s4' --seeds 5" in text
    assert "torchrun" not in text
    assert "over 8 ranks: torchrun" in failures.describe(manifest, make_line(figure=2.5).model_copy(update={"ranks": 8}))


def test_equal_records_are_not_worse(manifest: Manifest, make_line: Make) -> None:
    run = (ended(manifest, Verdict.PASS), [make_line()])
    assert not compare(run, run).worse


def test_what_was_asked_otherwise_is_named_alone(manifest: Manifest) -> None:
    other = manifest.model_copy(update={"arguments": manifest.arguments.model_copy(update={"keyword": "kda"})})
    notes = [line for line in compare((manifest, []), (other, [])).text.splitlines() if "differ" in line]
    assert notes == [f"The argument keyword differs: {manifest.arguments.keyword} and kda."]


def test_a_long_list_of_changed_verdicts_says_that_it_is_cut(manifest: Manifest, make_line: Make) -> None:
    lines = [make_line(case=f"kda/tp8/trained/s{number}") for number in range(52)]
    assert "- and 2 more\n" in compare((manifest, lines), (manifest, [])).text


def test_worse_is_a_verdict_a_lost_case_or_a_larger_figure(manifest: Manifest, make_line: Make) -> None:
    run = ended(manifest, Verdict.PASS)
    good = [make_line(figure=0.5), make_line("kda/tp8-batch2/trained/s1", figure=0.1)]
    for bad in ([good[0], make_line(good[1].case, figure=2.0)], good[:1], [make_line(figure=0.6), good[1]]):
        assert compare((run, good), (run, bad)).worse
    better = [make_line(figure=0.4), good[1]]
    found = compare((run, good), (run, better))
    assert not found.worse
    assert "better" in found.text


def test_a_new_case_that_fails_is_worse(manifest: Manifest, make_line: Make) -> None:
    run = ended(manifest, Verdict.PASS)
    new = make_line("kda/tp8-batch2/trained/s1", figure=2.0)
    assert compare((run, [make_line()]), (run, [make_line(), new])).worse
