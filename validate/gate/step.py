"""One step of the gate, from what is recorded of it to its verdict."""

import shlex
import signal
import time
from pathlib import Path

from rich.console import Console

from validate.gate import findings, running
from validate.gate.given import Given
from validate.gate.progress import progress
from validate.gate.record import StepRecord
from validate.processes import python
from validate.records.folder import unwritable
from validate.verdict import Verdict

VERDICTS = {verdict.exit_code: verdict for verdict in Verdict}
MINUTE = 60.0


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a step ran. ``one``: what there is of it."""

    def __init__(self, one: StepRecord) -> None:
        super().__init__()
        self.one = one


def run(one: StepRecord, there: Path, title: str, given: Given, lock: int, out: Console) -> StepRecord:
    """Runs what is left of a step, in the run's folder ``there``. ``Interrupted`` after Ctrl-C."""
    step = one.step
    into = there / step.name
    try:
        into.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(into, error) from error
    log = into / "log.txt"
    before, since, began = log.stat().st_size if log.exists() else 0, time.time() - 1, time.monotonic()
    have = tuple(need for need in step.needs if need in one.given or given.of(need))
    one = one.model_copy(update={"given": have, "log": str(log.relative_to(there)), "verdict": None})
    commands = [(given.first(step, into, findings.record(into)), signal.SIGINT)]
    rest, ended = step.budget * MINUTE, None
    with progress(out, title, step, log, before) as show:
        while commands:
            command, by = commands.pop(0)
            one = one.model_copy(update={"command": tuple(command)})
            try:
                done = running.run(command, log, rest, lock, by, show)
            except KeyboardInterrupt:
                raise Interrupted(_recorded(one, into, there, given, time.monotonic() - began)) from None
            first, ended, rest = ended is None, done, rest - done.seconds
            record = findings.record(into)
            if done.stopped or record is None:
                break
            if first and done.code != Verdict.FAIL.exit_code:
                commands += given.over(step, record)
    assert ended is not None
    one = _recorded(one, into, there, given, time.monotonic() - began)
    return _judged(one, ended, there, since, findings.tail(log, before))


def _recorded(one: StepRecord, into: Path, there: Path, given: Given, seconds: float) -> StepRecord:
    record = findings.record(into)
    update: dict[str, object] = {"seconds": round(one.seconds + seconds, 1)}
    if record is not None:
        again = given.first(one.step, into, record)[1:]
        update |= {"record": str(record.relative_to(there)), "again": shlex.join([python(), *again])}
    return one.model_copy(update=update)


def _judged(one: StepRecord, ended: running.Ended, there: Path, since: float, said: str) -> StepRecord:
    """The verdict of the exit code, where the record bears it out: an interpreter that breaks ends with 1, too."""
    failed = findings.failed(there / one.record, since) if one.record else []
    verdict, why = VERDICTS.get(ended.code, Verdict.INVALID), list[str]()
    if ended.stopped:
        verdict = Verdict.INVALID
        why.append(f"stopped, since it ran out of its budget of {one.step.budget:g} min; go on with: {one.again or 'a new run'}")
    elif ended.code < 0:
        why.append(f"ended by signal {-ended.code}")
    elif ended.code not in VERDICTS:
        why.append(f"ended with exit code {ended.code}")
    elif verdict is not Verdict.INVALID and one.record is None:
        why.append(f"ended with exit code {ended.code} and left no record")
        verdict = Verdict.INVALID
    elif verdict is Verdict.FAIL and not any(line.startswith(Verdict.FAIL) for line in failed):
        why.append("ended with exit code 1, and no check of its record failed")
        verdict = Verdict.INVALID
    waits = [f"needs {' and '.join(f'--{need}' for need in one.lacking)}, too"] if one.lacking else []
    if waits and verdict in (Verdict.PASS, Verdict.INCONCLUSIVE):
        why, waits, verdict = why + waits, [], Verdict.INVALID
    if verdict is not Verdict.PASS:
        why += findings.reasons(failed, said)
    if verdict is Verdict.INVALID:
        why = why[: findings.FIRST - 1] + waits
    return one.model_copy(update={"verdict": verdict, "exit_code": ended.code, "reasons": tuple(why[: findings.FIRST])})
