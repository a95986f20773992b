"""The commands for servers against vLLM 0.33.0: its argument parser, its files, and the pre-flight."""

import ast
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.preflight.conftest import CONFIG
from tests.support import ROOT
from validate.equivalence import arm, commands, entries
from validate.paths.vllm import entries as adapters
from validate.paths.vllm.source import Source
from validate.preflight import arguments, findings
from validate.preflight.deployment import Deployment, engine

PARSE = """
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.common.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
from validate.equivalence import arm, commands

parser = make_arg_parser(FlexibleArgumentParser())
for name in arm.names():
    arms = arm.load(name)
    for one in arm.NAMES:
        for node in range(arms.launch.nodes if arms.launch else 1):
            made = AsyncEngineArgs.from_cli_args(parser.parse_args(commands.on_node(arms, one, node)[2:]))
            assert made.additional_config == {"decode_backend": arm.BACKENDS[one]}
            assert made.node_rank == node
            assert all(getattr(made, key) == value for key, value in arms.engine.items() if not isinstance(value, dict))
    print("parsed", name)
"""


def test_vllms_own_parser_takes_them(vllm_source: Path) -> None:
    there = {
        **os.environ,
        "PYTHONPATH": f"{vllm_source}{os.pathsep}{ROOT}",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_NO_USAGE_STATS": "1",
    }
    imports = subprocess.run([sys.executable, "-c", PARSE.split("\n\n")[0]], env=there, capture_output=True, text=True)
    if "ModuleNotFoundError" in imports.stderr or "ImportError" in imports.stderr:
        pytest.skip(f"vLLM's argument parser cannot be imported here: {imports.stderr.splitlines()[-1]}")
    done = subprocess.run([sys.executable, "-c", PARSE], env=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("parsed")] == arm.names()


def test_every_option_is_one_of_vllms(vllm_source: Path) -> None:
    """Where its parser cannot be imported: options are fields of the classes that it is made from."""
    files = ("engine/arg_utils.py", "entrypoints/common/cli_args.py")
    known = {"headless", "port"}
    for file in files:
        for node in ast.walk(ast.parse((vllm_source / "vllm" / file).read_text())):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                known.add(node.target.id)
    for name in arm.names():
        for one in arm.NAMES:
            assert set(commands.arguments(arm.load(name), one)) <= known


def test_the_preflight_finds_nothing() -> None:
    for name in arm.names():
        arms = arm.load(name)
        if arms.launch is None:
            continue
        given = arguments.from_words(commands.on_node(arms, "specialized", 0))
        assert not findings(Deployment(engine(given), CONFIG, arms.environment, (10, 3))), name


@pytest.mark.parametrize(("name", "nodes", "ranks"), [("gb300-tp16", 4, 16), ("gb300-tp8", 2, 8)])
def test_one_command_a_node(name: str, nodes: int, ranks: int) -> None:
    arms = arm.load(name)
    assert arms.launch is not None
    assert arms.launch.nodes * arms.launch.gpus_per_node == ranks == arms.engine["tensor_parallel_size"]
    text = commands.render(name, arms)
    serving = [shlex.split(line) for line in text.splitlines() if " vllm serve " in line]
    assert len(serving) == 2 * nodes
    for words in serving:
        assert "VLLM_SERVER_DEV_MODE=1" in words
        assert words[words.index("--master-addr") + 1] == "$HEAD"
        assert ("--headless" in words) == (words[words.index("--node-rank") + 1] != "0") == ("--port" not in words)
    recorded = [line for line in text.splitlines() if line.startswith("python -m validate record")]
    assert [line.split("--arm ")[1].split()[0] for line in recorded] == ["default", "default-again", "specialized"]


def test_what_the_recorder_relies_on_is_there(vllm_source: Path) -> None:
    assert adapters.differences(Source(vllm_source), entries.WRAPPED) == []
    for (file, name), fields in entries.FIELDS.items():
        tree = ast.parse((vllm_source / file).read_text())
        (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
        there = {n.target.id for n in found.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
        assert fields <= there, name
    for file, text in entries.SAID:
        assert text in (vllm_source / file).read_text(), (file, text)
