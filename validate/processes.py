"""Processes that this suite starts."""

import ctypes
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
