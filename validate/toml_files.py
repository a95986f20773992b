"""TOML files that are named: one of a package's own by its bare name, a person's by a path that ends in ``.toml``."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from validate.errors import InputError


def names(package: str) -> list[str]:
    """The files that a package has, without ``.toml``."""
    return sorted(f.name.removesuffix(".toml") for f in resources.files(package).iterdir() if f.name.endswith(".toml"))


def read(name: str, package: str, what: str) -> dict[str, Any]:
    """The fields of one file. ``what`` it is, for errors: InputError if there is none or it is no TOML."""
    if not name.endswith(".toml") and name not in names(package):
        raise InputError(f"unknown {what} '{name}': there are {', '.join(names(package))}, or a .toml file")
    there = Path(name) if name.endswith(".toml") else resources.files(package).joinpath(f"{name}.toml")
    try:
        return tomllib.loads(there.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the {what} {name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"malformed {what} {name}: {error}") from error


def layered(name: str, package: str, what: str, parts: str) -> dict[str, Any]:
    """The same of a file that may start from another one.

    ``base = "other"``: tables are merged, of the list ``parts`` those of the same ``name`` replaced, as are other values, and the
    parts named in ``without`` left out. A base that ends in ``.toml`` lies beside the file.
    """
    return _layered(name, package, what, parts, ())


def why(error: ValidationError, what: str) -> str:
    """What is wrong with the fields, in one line; ``what`` they are of."""
    found = ((".".join(map(str, one["loc"])) or what, one["msg"].removeprefix("Value error, ")) for one in error.errors())
    return "; ".join(f"{where}: {said}" for where, said in found)


def _layered(name: str, package: str, what: str, parts: str, above: tuple[str, ...]) -> dict[str, Any]:
    if name in above:
        raise InputError(f"malformed {what} {above[0]}: base: {' -> '.join((*above, name))} goes round in circles")
    fields = read(name, package, what)
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
