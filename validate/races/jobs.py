"""Jobs of a run, several at a time, each recorded when it ends."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel
from rich.console import Console
from rich.progress import Progress

from validate.records import folder

Found = TypeVar("Found", bound=BaseModel)


def record(
    pool: Executor,
    jobs: Sequence[Callable[[], Found]],
    file: Path,
    found: list[Found],
    out: Console,
    stop: Callable[[Sequence[Future[Found]]], None],
) -> None:
    """Adds what every job finds to ``found`` and to the file, which begins with what is found already.

    ``pool`` is shut down at the end. Whatever ends this early, what has ended by then is recorded, and ``stop`` ends the others
    so that none of these begins or goes on.
    """
    folder.write_lines(file, found)
    with Progress(console=out, transient=True) as progress, pool:
        bar = progress.add_task(file.stem, total=len(jobs))
        waiting = [pool.submit(job) for job in jobs]
        try:
            for future in as_completed(waiting):
                found.append(future.result())
                folder.append(file, [found[-1]])
                progress.update(bar, advance=1)
        except BaseException:
            stop(waiting)
            raise
