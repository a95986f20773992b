"""How far a recording is: responses, tokens, and the time left, on a terminal and in a log."""

import time
from types import TracebackType

from rich import progress
from rich.console import Console

LINES = 10  # in a log, evenly over the responses


class Progress:
    """``total`` responses, ``done`` of which were there before. A context manager."""

    def __init__(self, out: Console, total: int, done: int) -> None:
        self.total, self.done, self.tokens = total, done, 0
        more = progress.TextColumn("{task.fields[more]}")
        self._out, self._before, self._begun = out, done, time.monotonic()
        columns = (progress.TextColumn("responses"), progress.BarColumn(), progress.MofNCompleteColumn(), more)
        self._bar = progress.Progress(*columns, console=out, disable=not out.is_terminal)
        self._task = self._bar.add_task("responses", total=total, completed=done, more="")

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def add(self, tokens: int) -> None:
        """One more response of so many tokens."""
        self.done, self.tokens = self.done + 1, self.tokens + tokens
        more = f"{self.tokens:,} tokens, {self.left()} left"
        self._bar.update(self._task, completed=self.done, more=more)
        if not self._out.is_terminal and self.done * LINES // self.total > (self.done - 1) * LINES // self.total:
            self._out.print(f"{self.done} of {self.total} responses, {more}", soft_wrap=True)

    def left(self) -> str:
        """As long as the rest takes if it goes on as so far."""
        new = self.done - self._before
        seconds = (time.monotonic() - self._begun) / max(1, new) * (self.total - self.done)
        if seconds < 90:
            return f"{seconds:.0f} s"
        return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
