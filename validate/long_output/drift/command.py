"""``python -m validate drift``."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from validate.errors import InputError

STEPS = 100_000


def drift(
    steps: Annotated[int | None, typer.Option(min=128, help=f"decode steps of a seed (default: {STEPS:,})")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="seeds (default: 1)")] = None,
    plant: Annotated[str | None, typer.Option(help="plant this fault in the specialized path, to see the run fail")] = None,
    faults: Annotated[bool, typer.Option("--faults", help="run every planted fault, each until it is found")] = False,
    output: Annotated[Path, typer.Option(help="folder that run records go to")] = Path("runs"),
    resume: Annotated[Path | None, typer.Option(help="continue an interrupted run")] = None,
) -> int:
    """KDA's recurrent state of both paths over many steps, beside float64: does the difference stay bounded.

    Exit code 0 if it does, 1 if it does not (or a planted fault is missed), 2 if the steps are too few to say.
    """
    from validate.long_output.drift import run
    from validate.long_output.drift.outcome import Arguments
    from validate.report.console import console

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was measured is kept, and how to go on is said
    if resume is not None:
        if steps or seeds or plant or faults:
            raise InputError(f"--resume takes no other argument than --output: {resume} keeps what it was begun with")
        return run.resume(resume, console()).run()
    if faults and (plant or seeds):
        raise InputError("--faults takes neither --plant nor --seeds: it runs every planted fault on one seed")
    arguments = Arguments(steps=steps or STEPS, seeds=seeds or 1, planted=plant, mode="faults" if faults else "drift")
    return run.start(arguments, output, console()).run()
