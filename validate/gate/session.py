"""A run of the gate from a profile to an exit code."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from validate.errors import InputError
from validate.gate import junit, profile, record, step, summary
from validate.gate.given import Given
from validate.gate.record import Gate, StepRecord
from validate.records import folder, provenance, writer
from validate.report.console import COLOURS

BESIDE = ("evals",)  # the package whose code steps run, too


def begin(name: str, output: Path, keep_going: bool) -> Path:
    """A new run's folder."""
    chosen = profile.load(name)
    gate = Gate(
        profile_name=name,
        profile=chosen,
        keep_going=keep_going,
        **provenance.made(*BESIDE),
        steps=tuple(StepRecord(step=one) for one in chosen.steps),
    )
    there = folder.create(output, f"gate-{chosen.name}")
    record.write(there, gate)
    return there


def run(there: Path, given: Given, keep_going: bool, out: Console) -> int:
    """Runs the steps that have not ended, as far as what they need is given. Exit code as of the worst verdict.

    It stops behind the first step that proves a defect, unless it is to keep going. Ctrl-C keeps what there is.
    """
    if not (there / record.GATE).is_file():
        record.read(there)  # says so, before a lock is made there
    with writer.alone(there) as lock:
        gate = record.read(there)
        if gate.source != provenance.source(*BESIDE):
            raise InputError(f"cannot resume {there}: the suite's source has changed since it was begun; begin a new run")
        gate = gate.model_copy(update={"keep_going": keep_going or gate.keep_going})
        for number, one in enumerate(gate.steps):
            if gate.proven and not gate.keep_going:
                break
            if one.ended or not given.due(one.step):
                continue
            title = f"[{number + 1}/{len(gate.steps)}] {one.step.name}"
            try:
                gate = _with(gate, number, step.run(one, there, title, given, lock, out))
            except step.Interrupted as interrupted:
                gate = _with(gate, number, interrupted.one)
                _report(there, gate, given)
                out.print(f"interrupted; go on with: {_go_on(there, gate, given)}", markup=False, soft_wrap=True)
                raise KeyboardInterrupt from None
            _report(there, gate, given)
            _say(gate.steps[number], title, out)
        verdict = gate.judged
        gate = gate.model_copy(update={"end": folder.now(), "verdict": verdict, "exit_code": verdict.exit_code})
        _report(there, gate, given)
    _show(there, gate, given, out)
    return verdict.exit_code


def _with(gate: Gate, number: int, one: StepRecord) -> Gate:
    return gate.model_copy(update={"steps": (*gate.steps[:number], one, *gate.steps[number + 1 :])})


def _report(there: Path, gate: Gate, given: Given) -> None:
    """After each step: whatever ends the gate, there is a summary of what ran."""
    record.write(there, gate)
    folder.write(there, "summary.md", summary.render(there, gate, _go_on(there, gate, given)))
    folder.write(there, "junit.xml", junit.render(gate))


def _go_on(there: Path, gate: Gate, given: Given) -> str | None:
    """How to go on; None where nothing is left, or a proven defect ends it."""
    left = [one.step for one in gate.steps if not one.ended]
    return given.go_on(there, left) if left and (gate.keep_going or not gate.proven) else None


def _say(one: StepRecord, title: str, out: Console) -> None:
    assert one.verdict is not None
    out.print(f"{title}: {one.verdict} in {one.seconds / 60:.1f} min", markup=False, style=COLOURS[one.verdict])
    for line in one.reasons[: summary.FINDINGS]:
        out.print(f"  {line}", markup=False, soft_wrap=True)


def _show(there: Path, gate: Gate, given: Given, out: Console) -> None:
    table = Table("step", "verdict", "minutes", "of", "first finding")
    for one in gate.steps:
        colour = COLOURS[one.verdict] if one.verdict else ""
        minutes = f"{one.seconds / 60:.1f}", f"{one.step.budget:g}"
        table.add_row(one.step.name, one.verdict or "not run", *minutes, summary.first(gate, one), style=colour)
    out.print(table, markup=False)
    if go_on := _go_on(there, gate, given):
        out.print(f"what was not run, or proved nothing, runs with: {go_on}", markup=False, soft_wrap=True)
    out.print(f"{gate.judged}  {there}", markup=False, soft_wrap=True)
