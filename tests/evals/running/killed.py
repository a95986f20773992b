"""Records an arm from an engine double until it is killed: ``python -m tests.evals.running.killed SUITE FOLDER``."""

import sys
from pathlib import Path

from evals.running import arm, suite
from tests.evals.running.doubles import Double
from validate.report.console import console

if __name__ == "__main__":
    file, there = sys.argv[1:]
    of = arm.Asked(file, suite.load(file), "default", Path(there), "the command")
    sys.exit(arm.record(of, console(), Double(seconds=0.02)))
