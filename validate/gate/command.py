"""``python -m validate gate``."""

import shlex
import signal
from pathlib import Path
from typing import Annotated

import typer

from validate.errors import InputError


def gate(
    profile: Annotated[str | None, typer.Argument(help="a gate profile's name, or a .toml file (default: cpu)")] = None,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="run all steps, also behind a proven defect")] = False,
    default_url: Annotated[
        list[str] | None, typer.Option(help="a running vLLM server of the default path; may be repeated, for replicas")
    ] = None,
    specialized_url: Annotated[list[str] | None, typer.Option(help="the same of the specialized path")] = None,
    over_ranks: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="what starts Python on every rank: 'srun … torchrun …'")
    ] = None,
    output: Annotated[Path, typer.Option(help="folder that run records go to")] = Path("runs"),
    resume: Annotated[
        Path | None, typer.Option(help="continue a run: what has not ended, or what waits for servers that are up now")
    ] = None,
) -> int:
    """Runs what decides before a merge, the cheapest step first, within a budget; stops at the first proven defect.

    Exit code 0 if every step is PASS, 1 if one is FAIL, 3 if one is INVALID or was not run, 2 if one is INCONCLUSIVE.
    """
    from validate.gate import profile as profiles
    from validate.gate import record, servers, session
    from validate.gate.given import Given
    from validate.records.secrets import unrecorded
    from validate.report.console import console

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what there is is kept, and how to go on is said
    try:
        words = tuple(shlex.split(over_ranks or ""))
    except ValueError as error:
        raise InputError(f"--over-ranks: {error}") from error
    default, specialized = (tuple(url for url in urls or () if url) for urls in (default_url, specialized_url))
    unrecorded(words, "--over-ranks")
    given = Given(default, specialized, words)  # a workflow's variable that is not set is an empty word
    begun = None if resume is None else record.read(resume)
    if begun is not None and profile not in (None, begun.profile_name):
        raise InputError(f"cannot resume {resume} with another profile: it was begun with {begun.profile_name}")
    given.needed_by(profiles.load(profile or "cpu") if begun is None else begun.profile)
    servers.answer([*default, *specialized])
    there = resume or session.begin(profile or "cpu", output, keep_going)
    return session.run(there, given, keep_going, console())
