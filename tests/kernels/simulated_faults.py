"""Mistakes for ``simulated_stages``."""

from tests.kernels.simulated_stages import Fault

FAULTS: dict[str, Fault] = {}
