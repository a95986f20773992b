"""What a run of the races leaves: ``manifest.json``, ``explored.jsonl``, a line a search, ``junit.xml`` and ``summary.md``."""

from pathlib import Path
from typing import Literal

from validate.races.machine import Kind
from validate.records import folder
from validate.records.model import Made, Record
from validate.verdict import Verdict

EXPLORED = "explored.jsonl"
How = Literal["every interleaving", "random"]


class Asked(Record):
    """What a run was begun with. ``limit``: states of one search; ``walks``: random schedules of one size."""

    keyword: str | None = None
    plant: str | None = None
    faults: bool = False
    limit: int = 1_000_000
    walks: int = 100


class Search(Record):
    """One protocol in one size, sound or with one of its faults."""

    protocol: str
    fault: str | None = None
    how: How
    sizes: dict[str, int]

    @property
    def name(self) -> str:
        """Unique in a run; ``o_proj ranks 2, layers 3``."""
        sizes = ", ".join(f"{name} {value}" for name, value in self.sizes.items())
        return f"{self.protocol}{f'.{self.fault}' if self.fault else ''} {sizes} ({self.how})"


class Explored(Record):
    """What a search found. ``complete``: every interleaving was looked at.

    ``schedule``: a counterexample's, ``trace`` what happens in it, a line each. ``states`` of random schedules are their steps.
    """

    search: Search
    states: int
    steps: int
    seconds: float
    complete: bool
    kind: Kind | None = None
    text: str = ""
    schedule: str = ""
    trace: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Of what was searched, planted fault or not: INCONCLUSIVE where the limit came before the end."""
        if self.kind is not None:
            return Verdict.FAIL
        return Verdict.PASS if self.complete or self.search.how == "random" else Verdict.INCONCLUSIVE


class Manifest(Made):
    """Which run it was.

    ``moved``: by protocol the files of vLLM's that are not as its model was read from them; None if none were held against it.
    ``vllm``: the version of those files.
    """

    layer: Literal["races"] = "races"
    asked: Asked
    planned: int
    moved: dict[str, tuple[str, ...]] | None = None
    vllm: str | None = None
    verdict: Verdict | None = None


def read(there: Path) -> tuple[Manifest, list[Explored]]:
    """A run, finished or not; a last line that was cut off is left out. InputError if it is damaged otherwise."""
    manifest = folder.versioned(Manifest, there / folder.MANIFEST)
    return manifest, folder.complete(Explored, there / EXPLORED)[0]
