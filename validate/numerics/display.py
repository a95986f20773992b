"""What a person sees while it runs: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterable

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from validate.numerics.plan import Task
from validate.records.model import Line
from validate.report.console import COLOURS
from validate.report.tables import Row
from validate.verdict import Verdict

PLAIN_EVERY = 10.0  # seconds between two progress lines where there is no terminal


class Display:
    """Progress of one run. Used as a context; ``add`` takes each case's lines as they arrive."""

    def __init__(self, out: Console, tasks: Iterable[Task], recorded: Iterable[Line] = ()) -> None:
        self._out = out
        self._planned: dict[str, int] = {}
        for task in tasks:
            stage = task.case.split("/")[0]
            self._planned[stage] = self._planned.get(stage, 0) + 1
        self._total = sum(self._planned.values())
        self._done: dict[str, int] = dict.fromkeys(self._planned, 0)
        self._rows: dict[tuple[str, str], Row] = {}
        self._count(recorded)
        self._resumed = sum(self._done.values())
        self._start = self._printed = time.monotonic()
        self._live = Live(get_renderable=self._render, console=out, refresh_per_second=4) if out.is_terminal else None

    def __enter__(self) -> "Display":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
        else:
            self._out.print(self.table())

    def add(self, lines: list[Line]) -> None:
        """Counts one case."""
        self._count(lines)
        now = time.monotonic()
        if self._live is None and now - self._printed > PLAIN_EVERY:
            self._printed = now
            self._out.print(self._progress())

    def table(self) -> Table:
        """The stages and subjects so far."""
        table = Table("stage", "subject")
        for heading in ("cases", "failed", "invalid", "seconds"):
            table.add_column(heading, justify="right")
        table.add_column("nearest its bound")
        for stage, planned in self._planned.items():
            own = [row for row in self._rows.values() if row.stage == stage]
            if not own:
                table.add_row(stage, "", f"0/{planned}", "", "", "", "")
            for n, row in enumerate(own):
                complete = self._done[stage] == planned
                colour = COLOURS[row.verdict] if complete or row.verdict is not Verdict.PASS else ""
                counted = f"{self._done[stage]}/{planned}" + (f", {row.missing} not run" if row.missing else "")
                cells = [row.subject, counted, row.failed, row.invalid, f"{row.seconds:.1f}", row.worst_check]
                table.add_row("" if n else stage, *map(str, cells), style=colour)
        return table

    def _render(self) -> Group:
        return Group(self._progress(), self.table())  # a table that is longer than the screen is cut off at its end

    def _progress(self) -> Text:
        done, spent = sum(self._done.values()), time.monotonic() - self._start
        new = done - self._resumed
        left = f", about {spent / new * (self._total - done):.0f} s left" if new and done < self._total else ""
        failed = sum(row.failed + row.invalid for row in self._rows.values())
        stages = [stage for stage, count in self._done.items() if 0 < count < self._planned[stage]]
        at = f", in {', '.join(stages)}" if stages else ""
        return Text(f"{done}/{self._total} cases, {failed} not passed, {spent:.0f} s{left}{at}")

    def _count(self, lines: Iterable[Line]) -> None:
        seen = {}
        for line in lines:
            if line.stage not in self._planned:
                continue
            self._rows.setdefault((line.stage, line.subject), Row(line.stage, line.subject)).add(line)
            seen[line.case] = line.stage
        for stage in seen.values():
            self._done[stage] += 1
