"""Which distributions an extra of this project asks for, and which of them are not here. None is imported."""

import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from validate.doctor.lack import Lack
from validate.records.provenance import NOT_INSTALLED, PACKAGE, version

NAME = "k3-parity"
PLUGIN = "k3_standin"


def lacking(extra: str = "") -> list[Lack]:
    """One line for each distribution of an extra that is not here, or not in a version that is asked for."""
    named = f"'.[{extra}]'" if extra else "."
    wrong = [line for requirement in wanted(extra) if (line := _wrong(requirement))]
    return [Lack(line, f"pip install -e {named}", by_nox=True) for line in wrong]


def lacking_of(*extras: str) -> list[Lack]:
    """The same of several extras, none twice."""
    return list(dict.fromkeys(one for extra in extras for one in lacking(extra)))


def wanted(extra: str = "", project: Path = PACKAGE.parent / "pyproject.toml") -> list[Requirement]:
    """What an extra asks for on this platform; without one, the base. Of a checkout, or else as it was installed."""
    if project.is_file():
        described = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        lines = described["optional-dependencies"][extra] if extra else described["dependencies"]
        asked = [Requirement(line) for line in lines]
        return [one for one in asked if one.marker is None or one.marker.evaluate()]
    every = [Requirement(line) for line in metadata.requires(NAME) or ()]
    return [one for one in every if _of(one, extra)]


def plugin() -> list[Lack]:
    """How vLLM finds the stand-in: an entry point, which this project has only where it is installed."""
    there = {entry.name for entry in metadata.entry_points(group="vllm.general_plugins")}
    what = f"vLLM does not find the stand-in: no installed distribution has the entry point {PLUGIN}"
    return [] if PLUGIN in there else [Lack(what, "pip install -e .", by_nox=True)]


def _of(requirement: Requirement, extra: str) -> bool:
    """Whether it is of that extra, and of no other."""
    if requirement.marker is None:
        return not extra
    base = requirement.marker.evaluate({"extra": ""})
    return base if not extra else not base and requirement.marker.evaluate({"extra": extra})


def _wrong(requirement: Requirement) -> str | None:
    there = version(requirement.name)
    if there == NOT_INSTALLED:
        return f"{requirement.name} is not installed"
    allowed: SpecifierSet = requirement.specifier
    if allowed.contains(there, prereleases=True):
        return None
    return f"{requirement.name} is {there}, and {allowed} is wanted"
