"""A gate's profile: a TOML file with the steps that run before a merge, the cheapest first, and their budgets."""

from itertools import pairwise
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from validate import toml_files
from validate.errors import InputError

PROFILES = "validate.gate.profiles"
OURS = ("-m", "validate")
Need = Literal["default-url", "specialized-url", "over-ranks"]


class Step(BaseModel):
    """One command of a layer. ``--output`` or ``--resume``, and the servers that it needs, are added to it.

    ``budget``: minutes after which it is stopped. ``needs``: a server of the default or of the specialized path, whose addresses
    the command takes as options of these names; or ``over-ranks``, the command that starts Python on every rank: the step's
    command is then followed by ``numerics --resume`` over all ranks, and by the same here, which judges the whole. ``program``:
    what the interpreter runs, this suite; another one in a person's own profile only.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    layer: str
    command: tuple[str, ...] = Field(min_length=1)
    budget: float = Field(gt=0)
    needs: tuple[Need, ...] = ()
    program: tuple[str, ...] = OURS


class Profile(BaseModel):
    """``budget``: minutes that all steps may take together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str
    budget: float = Field(gt=0)
    steps: tuple[Step, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _sound(self) -> "Profile":
        named = [step.name for step in self.steps]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise ValueError(f"steps: two are named {twice[0]}")
        if (total := sum(step.budget for step in self.steps)) > self.budget:
            raise ValueError(f"budget: the steps' add up to {total:g} min, and all of it is {self.budget:g}")
        for before, after in pairwise(self.steps):
            if after.budget < before.budget:
                raise ValueError(f"steps: {after.name} is cheaper than {before.name} before it: the cheapest is first")
        return self


def load(name: str) -> Profile:
    """The profile of that name, or in that ``.toml`` file. InputError if there is none or it is malformed."""
    profile = toml_files.load(Profile, name, PROFILES, "gate profile")
    for step in profile.steps:
        if step.program != OURS and not name.endswith(".toml"):
            raise InputError(f"malformed gate profile {name}: {step.name} runs another program than this suite")
    return profile
