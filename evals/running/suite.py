"""A suite: one TOML file that names an arm set and the tasks that are asked of its arms."""

from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from validate import toml_files
from validate.equivalence import arm as arm_sets
from validate.equivalence.arm import ArmSet

SUITES, TASKS = "evals.suites", "evals.tasks"
SERVED = 64  # requests that the specialized decode serves at once; more fall back (vLLM 0.33.0, specialized_decode)


class Asked(BaseModel):
    """A task of a suite: ``repeats`` of each of its first ``items`` items, of all where that is not said.

    ``margin``: the loss of the primary score, from 0 to 1, from which the specialized path counts as worse. ``budget``: tokens of
    a response at most, instead of the task's own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    repeats: int = Field(ge=1)
    margin: float = Field(gt=0, lt=1)
    items: int | None = Field(default=None, ge=2)  # of one item nothing follows
    budget: int | None = Field(default=None, ge=1)


class Suite(BaseModel):
    """What is asked of all arms alike.

    ``arms``: an arm set. ``engine``: arguments that take the place of its own. ``concurrency``: requests at once, at most, of
    each engine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str
    arms: str
    engine: dict[str, Any] = Field(default_factory=dict)
    concurrency: int = Field(default=SERVED, ge=1)
    tasks: tuple[Asked, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _sound(self) -> "Suite":
        known, named = tasks(), [task.name for task in self.tasks]
        for name in named:
            if name not in known:
                raise ValueError(f"tasks: there is no task {name}; there are {', '.join(known)}")
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise ValueError(f"tasks: {twice[0]} is named twice")
        return self

    def arm_set(self) -> ArmSet:
        """The arms with the suite's engine arguments. InputError where those are none of an arm set's."""
        base = arm_sets.load(self.arms)
        fields = base.model_dump(exclude_unset=True) | {"engine": base.engine | self.engine}
        return toml_files.checked(ArmSet, fields, self.name, "suite")


def names() -> list[str]:
    """The suites that come with the project."""
    return toml_files.names(SUITES)


def tasks() -> list[str]:
    """The tasks that there are."""
    files = resources.files(TASKS).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load(name: str) -> Suite:
    """The suite of that name, or in that ``.toml`` file. InputError if there is none or it is malformed.

    It may start from another one (``toml_files.load``), whose tasks it replaces by name.
    """
    return toml_files.load(Suite, name, SUITES, "suite", "tasks")
