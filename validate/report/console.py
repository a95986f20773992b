"""Where a person reads."""

import sys

from rich.console import Console


def console() -> Console:
    """Standard output; wide where there is no terminal, so that a log's lines stay whole."""
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)
