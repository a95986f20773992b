"""Engine arguments from a file, or from the command line that a user would give to ``vllm serve``."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validate.errors import InputError
from validate.preflight.deployment import Engine

SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-dcp": "decode_context_parallel_size",
    "-pcp": "prefill_context_parallel_size",
    "-ep": "enable_expert_parallel",
    "-q": "quantization",
    "-sc": "speculative_config",
    "-cc": "compilation_config",
    "-O": "optimization_level",
}
SWITCHES = {name for name, known in Engine.model_fields.items() if known.annotation is bool}


def from_file(path: Path) -> dict[str, Any]:
    """The arguments in a TOML or JSON file, dashes in their names as underscores."""
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InputError(f"cannot read the engine arguments {path}: {error.strerror}") from error
    except ValueError as error:  # of both formats
        raise InputError(f"malformed engine arguments {path}: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"malformed engine arguments {path}: a table of arguments is wanted")
    return {name.replace("-", "_"): value for name, value in found.items()}


def from_words(words: Sequence[str]) -> dict[str, Any]:
    """The arguments on a command line: ``--name value``, ``--name=value``, ``--switch``, ``--no-switch``, ``--name.key value``.

    A leading ``vllm serve`` and the model's name are passed over. Values are JSON where they can be.
    """
    left = list(words)
    while left and not left[0].startswith("-"):
        left.pop(0)
    found: dict[str, Any] = {}
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if name.startswith("-O") and len(name) > 2:  # -O3
            name, equals, value = "-O", "=", name[2:]
        values = [value] if equals else []
        while not equals and left and not _is_option(left[0]):
            values.append(left.pop(0))
        _set(found, name, values)
    if "config" in found:
        raise InputError("--config is not read here: put its arguments into a TOML or JSON file, or on this line")
    return found


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit()


def _set(found: dict[str, Any], option: str, values: list[str]) -> None:
    first, *keys = option.split(".")
    name = SHORT.get(first, first.lstrip("-").replace("-", "_"))
    if name.startswith("no_") and name[3:] in SWITCHES:
        found[name[3:]] = False
        return
    if name in SWITCHES and values:
        raise InputError(f"{option} takes no value, and '{values[0]}' follows it")
    if not values:
        found[name] = True
        return
    value = _value(values[0]) if len(values) == 1 else [_value(one) for one in values]
    if name == "cudagraph_capture_sizes" and not isinstance(value, list):
        value = [value]
    if not keys:
        found[name] = value
        return
    inner = found.setdefault(name, {})
    for key in keys[:-1]:
        inner = inner.setdefault(key.replace("-", "_"), {})
    inner[keys[-1].replace("-", "_")] = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.startswith(("{", "[")):
            raise InputError(f"no JSON: {text}") from None
        return text
