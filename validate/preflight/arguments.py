"""Engine arguments from a file, or from the command line that a user would give to ``vllm serve``."""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
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
LISTS = {"cudagraph_capture_sizes", "kv_cache_dtype_skip_layers"}  # all words that follow are theirs
LONG = {f"--{name.replace('_', '-')}": name for name in Engine.model_fields}
# vLLM has two words for a switch's opposite (vllm/utils/argparse_utils.py).
OFF = {option.replace("--", "--no-", 1): name for option, name in LONG.items() if name in SWITCHES}
OFF |= {option.replace("--enable-", "--disable-"): name for option, name in LONG.items() if option.startswith("--enable-")}
OPTIONS = SHORT | LONG | OFF


def from_file(path: Path) -> dict[str, Any]:
    """The arguments in a TOML or JSON file; names may have dashes. What is not known here keeps its name."""
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InputError(f"cannot read the engine arguments {path}: {error.strerror}") from error
    except ValueError as error:  # of both formats
        raise InputError(f"malformed engine arguments {path}: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"malformed engine arguments {path}: a table of arguments is wanted")
    return {LONG.get(f"--{name.replace('_', '-')}", name): value for name, value in found.items()}


def from_words(words: Sequence[str]) -> dict[str, Any]:
    """The arguments on a command line, read as vLLM's parser reads them.

    ``--name value``, ``--name=value``, ``--switch``, ``--no-switch``, ``--name.key value``; a name may be cut short where
    only one option is meant. A leading ``vllm serve`` and the model's name are passed over. Values are JSON where they can
    be. Options that are not known here keep the name by which they are given, with its dashes.
    """
    left = list(words)
    for word in ("vllm", "serve"):
        if left[:1] == [word]:
            left.pop(0)
    found: dict[str, Any] = {}
    by_key: dict[str, dict[str, Any]] = {}
    models: list[str] = []
    while left:
        word = left.pop(0)
        if not _is_option(word):
            models.append(word)
            continue
        given, equals, value = word.partition("=")
        if given.startswith("-O") and len(given) > 2:  # -O3
            given, equals, value = "-O", "=", given[2:]
        if given == "--config":
            raise InputError("--config is not read here: put its arguments into a TOML or JSON file, or on this line")
        first, *keys = given.split(".")
        option = _meant(first)
        values = [value] if equals else []
        while not equals and left and not _is_option(left[0]) and len(values) < _most(option, keys):
            values.append(left.pop(0))
        if option is None:
            found[given] = values
        elif keys:
            _update(by_key.setdefault(OPTIONS[option], {}), _nested(given, keys, values))
        else:
            found[OPTIONS[option]] = _given(option, values)
    if len(models) > 1:
        raise InputError(f"'{models[1]}' follows no option that takes it, and the model is '{models[0]}'")
    for name, inner in by_key.items():  # in vLLM, too, they replace what is given as a whole
        if not isinstance(found.get(name, {}), dict):
            raise InputError(f"--{name.replace('_', '-')} is '{found[name]}', which has no keys, and is given by keys, too")
        found[name] = inner
    return found


def not_looked_at(arguments: Mapping[str, Any]) -> list[str]:
    """The arguments that no finding reads, by the names under which they were given."""
    return [name for name in arguments if name not in Engine.model_fields]


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit()


def _meant(word: str) -> str | None:
    """The known option that a word names, whole or cut short; None if it names none, or if several begin so."""
    word = word.replace("_", "-")
    if word in OPTIONS:
        return word
    begun = [option for option in (*LONG, *OFF) if option.startswith(word)] if word[:2] == "--" else []
    return begun[0] if len(begun) == 1 else None


def _most(option: str | None, keys: Sequence[str]) -> float:
    """How many words can follow an option as its values."""
    if keys:
        return 1
    if option is None or OPTIONS[option] in LISTS:
        return math.inf
    return 0 if OPTIONS[option] in SWITCHES else 1


def _given(option: str, values: Sequence[str]) -> Any:
    name = OPTIONS[option]
    if name in SWITCHES:
        if values:
            raise InputError(f"{option} takes no value, and '{values[0]}' is given")
        return option not in OFF
    if not values:
        raise InputError(f"{option} needs a value")
    return [_value(one) for one in values] if name in LISTS else _value(values[0])


def _nested(given: str, keys: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """What ``--name.key.key value`` says about the name; ``key+`` takes a list with commas."""
    if not values:
        raise InputError(f"{given} needs a value")
    value: Any = values[0].split(",") if given.endswith("+") else _value(values[0])
    for key in reversed(keys):
        value = {key.removesuffix("+"): value}
    return value


def _update(known: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(known.get(key), dict):
            _update(known[key], value)
        elif isinstance(value, list) and isinstance(known.get(key), list):
            known[key] += value
        else:
            known[key] = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.startswith(("{", "[")):
            raise InputError(f"no JSON: {text}") from None
        return text
