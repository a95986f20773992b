"""``python -m validate races``, ``replay`` and ``races-gpu``."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from validate.errors import InputError

MOST_AT_A_TIME = 12  # trials on one GPU: each has a context of about 1 GB there, and they take turns


def races(
    keyword: Annotated[
        str | None, typer.Option("-k", help="parts of protocols' names, joined by and, or, not; or a whole name")
    ] = None,
    faults: Annotated[bool, typer.Option("--faults", help="search with every planted fault; fails if one is missed")] = False,
    plant: Annotated[str | None, typer.Option(help="plant this fault, protocol.fault, to see the run fail")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="states of one search (default: 1,000,000)")] = None,
    walks: Annotated[int | None, typer.Option(min=1, help="random schedules a protocol (default: 100)")] = None,
    workers: Annotated[int | None, typer.Option("-n", min=1, help="worker processes (default: cores)")] = None,
    vllm_src: Annotated[
        Path | None,
        typer.Option(
            help="folder that holds vllm/: say which models were written after other files (default: the installed vLLM)"
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="folder that run records go to")] = Path("runs"),
    resume: Annotated[Path | None, typer.Option(help="continue an interrupted run")] = None,
) -> int:
    """Searches the interleavings of every synchronisation protocol's model: stale and torn reads, lost updates, deadlocks."""
    from validate.races import session
    from validate.races.record import Asked, read
    from validate.report.console import console

    given = {"keyword": keyword, "plant": plant, "faults": faults or None, "limit": limit, "walks": walks}
    given = {name: value for name, value in given.items() if value is not None}
    if faults and plant:
        raise InputError("--faults plants every fault in turn: leave --plant out")
    if plant and keyword:
        raise InputError("--plant names its protocol: leave -k out")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if resume is not None:
        _as_begun(resume, read(resume)[0].asked, given)
    there = resume or session.begin(Asked.model_validate(given), output, vllm_src)
    return session.run(there, workers or os.cpu_count() or 1, console())


def replay(
    name: Annotated[str, typer.Argument(help="protocol, or protocol.fault")],
    sizes: Annotated[str, typer.Argument(help="ranks=2,layers=3,…")],
    words: Annotated[str, typer.Argument(metavar="SCHEDULE", help="as a run printed it")],
) -> int:
    """Shows, step by step, what a schedule that a run of the races printed does."""
    from validate.races import schedule, searching
    from validate.report.console import console
    from validate.verdict import Verdict

    of, planted = searching.fault(name) if "." in name else (searching.protocol(name), None)
    system = searching.built(of, searching.sizes(of, sizes), planted)
    shown, out = schedule.replay(system, schedule.parse(words)), console()
    for number, line in enumerate(shown.lines, 1):
        out.print(f"{number:3} {line}", markup=False, soft_wrap=True)
    if not shown.possible:
        raise InputError(
            f"{name} cannot go on so after {len(shown.lines)} lines: the schedule is of another size, fault or version"
        )
    if shown.violation is None:
        out.print("nothing is wrong", markup=False)
        return Verdict.PASS.exit_code
    out.print(f"{shown.violation.kind}: {shown.violation.text}", markup=False, soft_wrap=True)
    return Verdict.FAIL.exit_code


def races_gpu(
    vllm_src: Annotated[Path | None, typer.Option(help="vLLM's sources (default: the installed vLLM)")] = None,
    keyword: Annotated[str | None, typer.Option("-k", help="parts of names, joined by and, or, not; or a whole name")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="of a trial, and of its control (default: 200)")] = None,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="compute-sanitizer's sessions instead of the trials")] = False,
    workers: Annotated[int | None, typer.Option("-n", min=1, help="trials at a time (default: cores, at most 12)")] = None,
    output: Annotated[Path, typer.Option(help="folder that run records go to")] = Path("runs"),
    resume: Annotated[Path | None, typer.Option(help="continue a run: what has no result yet is made")] = None,
    listed: Annotated[bool, typer.Option("--list", help="run nothing; print the trials' names")] = False,
) -> int:
    """Runs vLLM's own kernels on one GPU under adversarial timing, and copies without their fixes beside them."""
    from validate.races.gpu import plan, sanitizer
    from validate.races.gpu.record import Asked, read
    from validate.report.console import console

    if listed:
        for one in sanitizer.sessions(keyword) if sanitize else plan.chosen(keyword):
            typer.echo(one.name)
        return 0
    from validate.races.gpu import session

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = {"keyword": keyword, "repeats": repeats, "sanitize": sanitize or None}
    given = {name: value for name, value in given.items() if value is not None}
    if resume is not None:
        _as_begun(resume, read(resume)[0].asked, given)
    there = resume or session.begin(vllm_src, Asked.model_validate({"vllm_src": "", **given}), output)
    return session.run(there, vllm_src, workers or min(MOST_AT_A_TIME, os.cpu_count() or 1), console())


def _as_begun(there: Path, begun: object, given: Mapping[str, object]) -> None:
    """InputError where a run is to be resumed with another option than it was begun with."""
    if other := [name for name, value in given.items() if getattr(begun, name) != value]:
        raise InputError(f"cannot resume {there} with another {other[0]}: it was begun with {getattr(begun, other[0])}")
