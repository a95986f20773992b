"""What is validated on which machine: one TOML file a profile."""

import tomllib
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from validate.errors import InputError


class Profile(BaseModel):
    """The sizes that the cases of a profile span, and the subjects that are judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str
    runs_on: str = Field(description="emulated, hopper or gb300: which of the three was run")
    subjects: tuple[str, ...]
    tp: tuple[int, ...]
    batches: tuple[int, ...] = Field(description="rows of plain decode steps")
    queries: tuple[int, ...] = Field(description="rows a request in verify steps")
    seeds: int = Field(ge=1)


def names() -> list[str]:
    """The profiles that exist."""
    return sorted(f.name.removesuffix(".toml") for f in resources.files(__name__).iterdir() if f.name.endswith(".toml"))


def load(name: str) -> Profile:
    """The profile of that name. InputError if there is none or its file is malformed."""
    if name not in names():
        raise InputError(f"unknown profile '{name}': the profiles are {', '.join(names())}")
    text = resources.files(__name__).joinpath(f"{name}.toml").read_text()
    try:
        return Profile(name=name, **tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise InputError(f"profile file validate/profiles/{name}.toml: {' '.join(str(error).split())}") from error
