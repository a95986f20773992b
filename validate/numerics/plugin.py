"""The pytest plugin of ``nox -s numerics``: loaded by the controller and by every worker process."""

import signal
from pathlib import Path

import pytest
import torch

PLAN = "--k3-plan"
LINES = "k3-lines"  # the user property that carries a case's lines, JSON, from a worker to the controller


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plan's file."""
    parser.addoption(PLAN, type=Path, help="the plan written by `python -m validate numerics`")


def pytest_configure(config: pytest.Config) -> None:
    """Workers use one thread each, and leave Ctrl-C to the controller."""
    if hasattr(config, "workerinput"):
        torch.set_num_threads(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
