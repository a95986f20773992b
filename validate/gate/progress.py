"""What a person sees while a step runs: how long it has, and the last line that it said."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from validate.gate.findings import short, tail
from validate.gate.profile import Step

EVERY = 30.0  # seconds between two lines where there is no terminal
OFTEN = 1.0


@contextlib.contextmanager
def progress(out: Console, title: str, step: Step, log: Path, before: int) -> Iterator[Callable[[], None]]:
    """Gives what is to be called now and then. ``before``: bytes of the log that earlier calls wrote."""
    began = shown = time.monotonic()
    out.print(f"{title}: {step.budget:g} min at most, {log}", markup=False, soft_wrap=True)
    with out.status(escape(title)) as status:

        def show() -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown < (OFTEN if out.is_terminal else EVERY):
                return
            shown = now
            said = tail(log, before).splitlines()[-1:] or [""]
            line = f"{title}: {(now - began) / 60:.1f} of {step.budget:g} min  {short(said[0])[:100]}"
            if out.is_terminal:
                status.update(escape(line))
            else:
                out.print(line, markup=False, soft_wrap=True)

        yield show
