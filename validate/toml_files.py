"""TOML files that are named: one of a package's own by its bare name, a person's by a path that ends in ``.toml``."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from validate.errors import InputError

Loaded = TypeVar("Loaded", bound=BaseModel)


def names(package: str) -> list[str]:
    """The files that a package has, without ``.toml``."""
    return sorted(f.name.removesuffix(".toml") for f in resources.files(package).iterdir() if f.name.endswith(".toml"))


def load(model: type[Loaded], name: str, package: str, what: str, parts: str | None = None) -> Loaded:
    """The file of that name. ``what`` it is, for errors: InputError if there is none or it is malformed.

    With ``parts`` it may start from another one, ``base = "other"``: tables are merged, of the list ``parts`` those of the same
    ``name`` replaced, as are other values, and the parts named in ``without`` left out. A base that ends in ``.toml`` lies
    beside the file.
    """
    fields = _layered(name, package, what, parts, ()) if parts else _read(name, package, what)
    return checked(model, fields | {"name": Path(name).stem}, name, what)


def checked(model: type[Loaded], fields: dict[str, Any], name: str, what: str) -> Loaded:
    """The fields as what they are of. InputError says in one line what is wrong with them."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        found = ((".".join(map(str, one["loc"])) or what, one["msg"].removeprefix("Value error, ")) for one in error.errors())
        wrong = "; ".join(f"{where}: {said}" for where, said in found)
        raise InputError(f"malformed {what} {name}: {wrong}") from error


def _read(name: str, package: str, what: str) -> dict[str, Any]:
    if not name.endswith(".toml") and name not in names(package):
        raise InputError(f"unknown {what} '{name}': there are {', '.join(names(package))}, or a .toml file")
    there = Path(name) if name.endswith(".toml") else resources.files(package).joinpath(f"{name}.toml")
    try:
        return tomllib.loads(there.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the {what} {name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"malformed {what} {name}: {error}") from error


def _layered(name: str, package: str, what: str, parts: str, above: tuple[str, ...]) -> dict[str, Any]:
    if name in above:
        raise InputError(f"malformed {what} {above[0]}: base: {' -> '.join((*above, name))} goes round in circles")
    fields = _read(name, package, what)
    base, without = fields.pop("base", None), fields.pop("without", [])
    if base is None:
        return fields
    beside = str(Path(name).parent / base) if name.endswith(".toml") and str(base).endswith(".toml") else str(base)
    below = _layered(beside, package, what, parts, (*above, name))
    named = {str(part.get("name")): part for part in (*below.get(parts, ()), *fields.get(parts, ()))}
    return _merged(below, fields) | {parts: [part for one, part in named.items() if one not in without]}


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {key for key in above if isinstance(above[key], dict) and isinstance(below.get(key), dict)}
    return below | above | {key: _merged(below[key], above[key]) for key in both}
