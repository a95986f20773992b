"""Processes that this suite starts."""

import ctypes
import multiprocessing
import os
import shutil
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent() -> None:
    """This process is killed when the one that started it ends, whose deadline for it is gone then. On Linux only."""
    told_when_parent_ends(signal.SIGKILL)


def told_when_parent_ends(by: signal.Signals) -> None:
    """This process gets that signal when the one that started it ends, also as the program that it becomes. On Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)


def end_workers() -> None:
    """The worker processes of this one's pools are ended, in the midst of what they do.

    Not by a signal that they handle: a pool's worker would begin what waits.
    """
    for worker in multiprocessing.active_children():
        worker.kill()


def python() -> str:
    """What a person types for this interpreter: ``python`` where a shell takes that for it, else its path."""
    found = shutil.which("python")
    if found is not None and os.path.abspath(found) == os.path.abspath(sys.executable):
        return "python"
    path = os.path.relpath(sys.executable)
    return sys.executable if path.startswith("..") else path
