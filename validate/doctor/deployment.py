"""A user's deployment: what vLLM's own check says of it, what the pre-flight says, and which of its steps run specialized."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from validate import preflight
from validate.doctor import VLLM, graphs, kimi_k3, own, steps
from validate.errors import InputError
from validate.paths.vllm import source
from validate.preflight import arguments
from validate.preflight.deployment import Deployment, engine, model_config, version_of
from validate.preflight.finding import RUNTIME, Finding
from validate.verdict import Verdict

TABLES = (".toml", ".json")
SET = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
VARIABLE = re.compile(r"\$(?:\{(?P<name>\w+)(?::-(?P<otherwise>[^${}]*))?\}|(?P<bare>\w+))")
WHERE = (
    "--api-key",
    "--host",
    "--master-addr",
    "--master-port",
    "--node-rank",
    "--port",
    "--served-model-name",
    "--download-dir",
)
BEHIND = re.compile(r"[0-9]*[<>|&;]")  # a redirection, a pipe, or the end of a command


@dataclass(frozen=True)
class Described:
    """``ignored``: arguments that nothing here reads. ``assumed``: no configuration was named, so Kimi K3's is taken."""

    deployment: Deployment
    ignored: tuple[str, ...]
    assumed: bool


@dataclass(frozen=True)
class Answer:
    """What is printed, and its verdict: as the pre-flight's, INVALID where vLLM's own check refuses it."""

    lines: tuple[str, ...]
    verdict: Verdict


def read(file: Path, config: Path | None, capability: str) -> Described:
    """The deployment in a TOML or JSON file of engine arguments, or in a file with a ``vllm serve`` command.

    InputError, one line, for what cannot be read. This machine's environment counts as the deployment's, and what the command
    sets before it.
    """
    given, variables = (arguments.from_file(file), {}) if file.suffix in TABLES else command(file)
    described = Deployment(
        engine(given), model_config(config) if config else kimi_k3.config(), {**os.environ, **variables}, version_of(capability)
    )
    return Described(described, tuple(arguments.not_looked_at(given)), config is None)


def command(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The engine arguments of the ``vllm serve`` command in a shell's script, and the variables that are set before it.

    No shell is asked: variables that the script itself sets are put in, ``${NAME:-value}`` is the value, and what is left is
    refused, but for the model and for where the server runs (``WHERE``).
    """
    try:
        text = file.read_text(encoding="utf-8").replace("\\\n", " ")  # as a shell joins lines, and shlex does not
        words = shlex.split(text, comments=True)
    except OSError as error:
        raise InputError(f"cannot read the deployment {file}: {error.strerror}") from error
    except ValueError as error:  # of quotes, and of what is no text
        raise InputError(f"malformed deployment {file}: {error}") from error
    starts = [n for n, (word, next_) in enumerate(pairwise(words)) if Path(word).name == "vllm" and next_ == "serve"]
    if not starts:
        raise InputError(f"malformed deployment {file}: a vllm serve command is wanted, or a file that ends in .toml or .json")
    if len(starts) > 1:
        raise InputError(
            f"malformed deployment {file}: it has {len(starts)} vllm serve commands: put each into a file of its own"
        )
    variables: dict[str, str] = {}
    for word in words[: starts[0]]:
        if SET.match(word):
            name, value = word.split("=", 1)
            variables[name] = _put_in(value, variables)
    model, *given = [
        _put_in(word, variables) for word in takewhile(lambda word: not BEHIND.match(word), words[starts[0] + 2 :])
    ] or [""]
    kept = [model]
    for word in given:
        if "$" in word and kept[-1] in WHERE:
            kept.pop()
        elif "$" in word and word.partition("=")[0] not in WHERE:
            raise InputError(f"malformed deployment {file}: '{word}' is a shell's to replace, and none is asked: write its value")
        elif "$" not in word:
            kept.append(word)
    return arguments.from_words(["vllm", "serve", *kept]), variables


def _put_in(word: str, variables: Mapping[str, str]) -> str:
    """A word with the values of variables that are known, and the ones that a shell takes where there is none."""

    def value(found: re.Match[str]) -> str:
        name, otherwise = found["name"] or found["bare"], found["otherwise"]
        known = variables.get(name)
        return known if known is not None and "$" not in known else found[0] if otherwise is None else otherwise

    return VARIABLE.sub(value, word)


def examine(described: Described, vllm_src: Path | None) -> Answer:
    """Every reason at once. ``vllm_src``: the folder that holds vllm/, None the installed vLLM. InputError as of ``own``."""
    d = described.deployment
    found = preflight.findings(d)
    verdict = preflight.verdict(found)
    files, said = _files(vllm_src)
    lines = [said]
    starts = not any(finding.name == "vLLM" for finding in found)
    if files is not None:
        refused = own.reasons(files.root, d, graphs.sizes(d, d.q or 1))
        lines += _own(refused, found)
        starts = not refused
        verdict = Verdict.INVALID if refused else verdict
    if described.assumed:
        lines.append("no --model-config: the model is taken for Kimi K3, and its config.json is not looked at")
    lines += ["", *map(str, found)]
    if described.ignored:
        lines.append(f"not looked at: {', '.join(described.ignored)}")
    lines += ["", *(_steps(d, files) if starts else ["no step runs specialized"]), ""]
    refusals = sum(finding.severity == "refuse" for finding in found)
    version = ".".join(map(str, d.capability))
    lines.append(f"{verdict}  {refusals} refused, {len(found) - refusals} warnings, for GPUs of compute capability {version}")
    return Answer(tuple(lines), verdict)


def _files(vllm_src: Path | None) -> tuple[source.Source | None, str]:
    """VLLM's files, and who is asked. InputError where a folder is named that has none."""
    instead = f"the answers are the pre-flight's, from reading vLLM {VLLM}"
    try:
        files = source.opened(vllm_src)
    except InputError as error:
        if vllm_src is not None:
            raise
        return None, f"{error}; {instead}"
    version = files.version()[0]
    if not (files.root / RUNTIME).is_file():
        lacking = f"vLLM {version} under {files.root} has no specialized decode of Kimi K3"
        if vllm_src is not None:
            raise InputError(f"{lacking}: vLLM {VLLM} has it")
        return None, f"{lacking}; {instead}"
    other = "" if version == VLLM else f", and the pre-flight knows {VLLM}"
    return files, f"asked: vLLM {version}'s own check, {files.root / RUNTIME}{other}"


def _own(refused: Sequence[str], found: Sequence[Finding]) -> Iterator[str]:
    """VLLM's own words, and whether the pre-flight's reading of the same check says as much."""
    reasons = f"{len(refused)} reason{'s' if len(refused) > 1 else ''}"
    yield f"vLLM does not run it specialized, {reasons}:" if refused else "vLLM runs it specialized"
    yield from (f"  {reason}" for reason in refused)
    restated = [finding for finding in found if finding.name == "vLLM" and finding.where == RUNTIME]
    if len(restated) != len(refused):
        yield f"the pre-flight's reading of that check finds {len(restated)}: it is not this vLLM's, which counts"


def _steps(d: Deployment, files: source.Source | None) -> Iterator[str]:
    yield "which path its steps run on" + (", by vLLM's own plan() for each graph:" if files else ":")
    yield from (f"  {one}" for one in steps.of(d))
    if files is not None:
        for q in steps.QUERIES if d.q is None else (d.q,):
            deployment = graphs.deployed(d, q)
            yield from (f"  {line}" for line in steps.disagreements(deployment, own.plans(files.root, deployment)))
