"""All planted faults, for whoever looks for one: of decode stages, protocols, long recurrences and whole engines."""

from dataclasses import dataclass

from validate import keywords
from validate.errors import InputError
from validate.faults import catalogue, drift, engine
from validate.races.protocols import PROTOCOLS


@dataclass(frozen=True)
class Faults:
    """Those of one kind, a row a fault, its name first."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def listed(keyword: str | None = None) -> list[Faults]:
    """The kinds of which there is one that the keyword selects. InputError if there is none at all."""
    stages = [(f.name, f.path, "subtle" if f.subtle else "", f.stands_for) for f in catalogue().values()]
    protocols = [(f"{p.name}.{f.name}", f.plants, f.stands_for) for p in PROTOCOLS for f in p.faults]
    recurrences = [(f.name, f"{f.from_step:,}", f.stands_for) for f in drift.catalogue().values()]
    engines = [(f.name, f.shown, f.stands_for) for f in engine.catalogue().values()]
    every = [
        Faults(("fault of a stage", "path", "subtle", "stands for"), tuple(stages)),
        Faults(("fault of a protocol", "what is wrong", "stands for"), tuple(protocols)),
        Faults(("fault of a long recurrence", "from step", "stands for"), tuple(recurrences)),
        Faults(("fault of a whole engine", "shown by", "stands for"), tuple(engines)),
    ]
    names = {row[0] for one in every for row in one.rows}
    chosen = names if keyword is None else {keyword} & names or {name for name in names if keywords.matches(keyword, name)}
    if not chosen:
        raise InputError(f"-k '{keyword}' selects none of the {len(names)} faults")
    kept = [Faults(one.header, tuple(row for row in one.rows if row[0] in chosen)) for one in every]
    return [one for one in kept if one.rows]
