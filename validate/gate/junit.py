"""``junit.xml`` of a gate: one test a step."""

from validate.gate.record import Gate
from validate.gate.summary import first
from validate.report import junit


def render(gate: Gate) -> str:
    """One suite."""
    tests = [
        junit.Entry(f"gate.{one.step.layer}", one.step.name, one.verdict, first(gate, one), "\n".join(one.reasons), one.seconds)
        for one in gate.steps
    ]
    return junit.render(f"k3-parity gate {gate.profile.name}", {gate.profile.name: tests})
