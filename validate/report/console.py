"""Where a person reads: standard output, and the colours of verdicts there."""

import sys

from rich.console import Console

from validate.verdict import Verdict

COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.INCONCLUSIVE: "yellow", Verdict.INVALID: "magenta"}


def console() -> Console:
    """Standard output; wide where there is no terminal, so that a log's lines stay whole."""
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)
