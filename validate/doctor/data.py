"""The data sets of the benchmarks that are asked of Kimi K3."""

from validate.doctor.lack import Lack


def lacking(suite: str) -> list[Lack]:
    """One line for each set of a suite that is neither in the hub's cache nor to be had from the hub."""
    from evals.data.reach import out_of_reach
    from evals.data.sources import SOURCES
    from evals.running import suite as suites

    named = [SOURCES[task.name] for task in suites.load(suite).tasks if task.name in SOURCES]
    why = [line for source in named if (line := out_of_reach(source))]
    return [Lack(line, "python -m validate evals … --data DIR, with its files in DIR") for line in why]
