"""The recorded fingerprints, one file an architecture, and what differs from them.

A file lists each kernel's variants. What all variants of a kernel have in common is written once, above them, and a variant
that is like an earlier one is the name of that one, so that a change of the kernel is a change of few lines.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validate.errors import InputError
from validate.kernels.ptx import DEPENDENCY, OF_THE_WAIT, ORDER

VARIANT = "variant"  # what differs where all of it does
GOLDEN = Path(__file__).resolve().parents[2] / "golden/kernels"

Fingerprints = Mapping[str, Mapping[str, Any]]  # by variant


@dataclass(frozen=True)
class Golden:
    """A file of fingerprints, and with what they were made: the profile, vLLM's version, the compiler's."""

    made_with: dict[str, str]
    variants: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Difference:
    """One thing about one variant."""

    variant: str
    what: str
    golden: str
    here: str

    @property
    def unknown(self) -> bool:
        """Whether it is that golden does not have the variant."""
        return self.what == VARIANT

    def __str__(self) -> str:
        return f"{self.variant}: {self.what}: golden {self.golden}, here {self.here}"


def path(arch: str) -> Path:
    """Where an architecture's fingerprints are, in a checkout."""
    return GOLDEN / f"{arch}.json"


def read(file: Path) -> Golden:
    """InputError if there is none or it is damaged."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        variants = {}
        for kernel, entry in content["kernels"].items():
            own = entry["variants"]
            for name, value in own.items():
                variants[f"{kernel}/{name}"] = entry["common"] | (own[value] if isinstance(value, str) else value)
        return Golden(content["made_with"], variants)
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; --update-golden writes it") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is damaged: {error}") from error


def write(file: Path, golden: Golden) -> None:
    """One line for each variant, in the order of names."""
    kernels: dict[str, dict[str, dict[str, Any]]] = {}
    for variant in sorted(golden.variants):
        kernel, name = split(variant)
        kernels.setdefault(kernel, {})[name] = golden.variants[variant]
    lines = ["{", f'"made_with": {json.dumps(golden.made_with)},', '"kernels": {']
    for number, (kernel, variants) in enumerate(kernels.items(), 1):
        common = _common(list(variants.values()))
        rows = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in _own(variants, common).items()]
        end = "}}," if number < len(kernels) else "}}"
        lines += [f' {json.dumps(kernel)}: {{"common": {json.dumps(common)},', '"variants": {', ",\n".join(rows), f" {end}"]
    lines += ["}", "}"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def compare(golden: Fingerprints, here: Fingerprints) -> list[Difference]:
    """What differs for the variants that are here. A variant that is not in golden is one difference."""
    found = []
    for variant, fingerprint in here.items():
        if variant not in golden:
            found.append(Difference(variant, VARIANT, "does not know it", "compiled"))
            continue
        recorded = golden[variant]
        names = [name for name in {**recorded, **fingerprint} if recorded.get(name) != fingerprint.get(name)]
        if DEPENDENCY in names:
            names = [name for name in names if name not in OF_THE_WAIT]  # without a wait there is none of them
        if any(name != ORDER for name in names):
            names = [name for name in names if name != ORDER]  # other instructions have another order
        found += [Difference(variant, name, *_both(recorded.get(name), fingerprint.get(name))) for name in names]
    return found


def grouped(differences: list[Difference]) -> list[str]:
    """One line for each change of a kernel, however many of its variants have it."""
    same: dict[tuple[str, str, str, str], list[str]] = {}
    for difference in differences:
        key = (split(difference.variant)[0], difference.what, difference.golden, difference.here)
        same.setdefault(key, []).append(difference.variant)
    return [
        f"{variants[0]}{f' and {len(variants) - 1} more' if len(variants) > 1 else ''}: {what}: golden {before}, here {now}"
        for (_, what, before, now), variants in same.items()
    ]


def split(variant: str) -> tuple[str, str]:
    """``stage/KernelClass``, and the parameters."""
    stage, kernel, name = variant.split("/", 2)
    return f"{stage}/{kernel}", name


def _both(golden: object, here: object) -> tuple[str, str]:
    """As they are shown: an instruction that one side lacks is there 0 times."""
    absent = 0 if isinstance(golden, int) or isinstance(here, int) else "absent"
    return str(absent if golden is None else golden), str(absent if here is None else here)


def _common(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in entries[0].items() if all(entry.get(name) == value for entry in entries)}


def _own(variants: dict[str, dict[str, Any]], common: dict[str, Any]) -> dict[str, dict[str, Any] | str]:
    """What each variant has beyond the common, or the name of an earlier one that has the same."""
    own: dict[str, dict[str, Any] | str] = {}
    first: dict[str, str] = {}
    for name, entry in variants.items():
        rest = {key: value for key, value in entry.items() if key not in common}
        text = json.dumps(rest)
        own[name] = first.get(text, rest)
        first.setdefault(text, name)
    return own
