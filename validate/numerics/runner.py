"""Runs a plan over worker processes (pytest and pytest-xdist) and hands over each case's lines as they arrive."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from validate.errors import InputError
from validate.numerics import plugin
from validate.numerics.case import Case
from validate.numerics.plan import Plan, Task
from validate.records.model import Line

Receive = Callable[[list[Line]], None]


def run(plan: Plan, cases: Mapping[str, Case], workers: int, receive: Receive) -> bool:
    """Judges every task of the plan; False if Ctrl-C ended it. ``receive`` gets the lines of one case at a time.

    A case that raises, or whose worker dies (out of memory), yields lines with ``error``. An InputError of ``receive``
    ends the run and is raised.
    """
    if not plan.tasks:
        return True
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as scratch, _isolated():
        path = Path(scratch) / "plan.json"
        path.write_text(plan.model_dump_json(), encoding="utf-8")
        collector = _Collector(plan, cases, receive)
        options = [f"--rootdir={here}", f"-c{os.devnull}", f"{plugin.PLAN}={path}", f"--basetemp={scratch}/pytest"]
        options += ["--noconftest", "--assert=plain", "-pno:cacheprovider", "-pno:terminal", "-pno:faulthandler"]
        # load, not loadgroup: that one was seen never to end after a worker's death (xdist 3.8).
        options += ["-pxdist.plugin", f"-p{plugin.__name__}", f"-n{workers}", "--dist=load"]
        pytest.main([*options, str(here / "test_stages.py")], plugins=[collector])
    if collector.failure is not None:
        raise collector.failure
    return not collector.interrupted


class _Collector:
    """The controller's side: turns pytest's reports into lines."""

    def __init__(self, plan: Plan, cases: Mapping[str, Case], receive: Receive) -> None:
        self.interrupted = False
        self.failure: InputError | None = None
        self._plan, self._cases, self._receive = plan, cases, receive
        self._tasks = {task.case: task for task in plan.tasks}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A case's lines, from its call; or, where it raised or its worker died, lines that say so."""
        carried = dict(report.user_properties).get(plugin.LINES)
        if carried is not None and report.when == "call":
            lines = [Line.model_validate_json(line) for line in json.loads(str(carried))]
        elif carried is None and report.failed:
            task = self._tasks[report.nodeid.split("[", 1)[1].rsplit("]", 1)[0]]
            lines = lost(self._plan, task, self._cases[task.case], _reason(report))
        else:
            return
        try:
            self._receive(lines)
        except InputError as error:
            self.failure = error
            pytest.exit(str(error))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Ctrl-C; xdist ends a hopeless run by a subclass of the same exception."""
        self.interrupted = excinfo.type is KeyboardInterrupt


def lost(plan: Plan, task: Task, case: Case, error: str) -> list[Line]:
    """The lines of a task that gave no result."""
    common: dict[str, Any] = {"case": case.id, "stage": case.stage, "sizes": dict(case.sizes)}
    common |= {"inputs": case.inputs, "seed": case.seed, "error": error}
    return [Line(subject=subject.name, **common) for subject in plan.subjects(task)]


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return f"{str(crash.message).splitlines()[0]} ({crash.path}:{crash.lineno})"
    text = " ".join(str(report.longrepr).split())
    return text + ("; often out of memory: fewer workers (-n) need less" if "crashed" in text else "")


@contextmanager
def _isolated() -> Iterator[None]:
    """A person's own pytest settings and plugins have no say in a measurement; and a worker is one thread."""
    before = dict(os.environ)
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
