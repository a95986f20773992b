"""What is validated on which machine: one TOML file a profile."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from validate import toml_files

# The specialized path serves 1 to 64 rows, and verify steps of 2 to 8 (vLLM 0.33.0, specialized_decode/runtime).
Rows = Annotated[int, Field(ge=1, le=64)]
Query = Annotated[int, Field(ge=2, le=8)]


class Profile(BaseModel):
    """The sizes that the cases of a profile span, and the subjects that are judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str
    runs_on: Literal["emulated", "hopper", "gb300"] = Field(description="which of the three is run")
    subjects: tuple[str, ...] = Field(min_length=1)
    nodes: int = Field(default=1, ge=1, description="of the machine that it runs on")
    gpus_per_node: int = Field(default=1, ge=1)
    tp: tuple[Literal[1, 8, 16], ...] = Field(min_length=1)
    batches: tuple[Rows, ...] = Field(min_length=1, description="rows of plain decode steps")
    queries: tuple[Query, ...] = Field(description="rows a request in verify steps")
    seeds: int = Field(ge=1)
    stages: tuple[str, ...] | None = Field(default=None, description="the stages that are run; all if not given")

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus_per_node


def names() -> list[str]:
    """The profiles that exist."""
    return toml_files.names(__name__)


def load(name: str) -> Profile:
    """The profile of that name, or in that ``.toml`` file. InputError if there is none or it is malformed."""
    return toml_files.load(Profile, name, __name__, "profile")
