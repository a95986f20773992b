"""Recurrences that a test makes up."""

from validate.long_output.drift import acceptance
from validate.long_output.drift.lockstep import Lockstep
from validate.long_output.drift.outcome import Head
from validate.long_output.drift.stream import Stream
from validate.long_output.drift.subject import specialized
from validate.long_output.drift.yardstick import OWN
from validate.paths.emulated.kda import SpecializedKda
from validate.verdict import Verdict

NAME = "emulated-specialized"


def lockstep(path: SpecializedKda, seed: int = 0) -> Lockstep:
    """Both paths, with ``path`` in the specialized one's place."""
    stream = Stream(seed)
    return Lockstep(stream, [specialized(NAME, path, stream.inputs)])


def run(path: SpecializedKda, blocks: int, seed: int = 0) -> Lockstep:
    made = lockstep(path, seed)
    for _ in range(blocks):
        made.block()
    return made


def heads(made: Lockstep, name: str = NAME) -> list[Head]:
    return acceptance.heads(made.tracks[name], made.memory)


def failed(made: Lockstep, name: str = NAME) -> set[str]:
    """The checks that a subject fails."""
    default = name == "emulated-default"
    strays = int(made.strays[OWN["default" if default else "specialized"]])
    checks = acceptance.checks(made.tracks[name], heads(made, name), strays, default=default)
    return {check.name for check in checks if check.verdict is Verdict.FAIL}
