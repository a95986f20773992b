"""The commands that start a suite's servers and ask them."""

import shlex

from evals.running.suite import Suite
from validate.equivalence.commands import address, heading, servers


def render(file: str, suite: Suite) -> str:
    """All commands, for servers that are up one after the other, in the order in which a person gives them."""
    arms, evals = suite.arm_set(), "python -m validate evals"
    lines = [*heading(arms), *servers(arms, ("default", "default-again"))]
    lines.append(f"{evals} {shlex.quote(file)} --default-url {address(arms)}  # records both, in RUN")
    lines += servers(arms, ("specialized",))
    lines.append(f"{evals} --resume RUN --specialized-url {address(arms)}  # and compares")
    return "\n".join(lines)
