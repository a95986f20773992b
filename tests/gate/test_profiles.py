"""The profiles load, stay within their budgets, and their commands are ones that the command line knows."""

from pathlib import Path

import pytest
from typer.main import get_command

from evals.running import suite
from tests.gate.steps import profile, step
from validate import cli, profiles, toml_files
from validate.equivalence import arm
from validate.errors import InputError
from validate.gate import profile as gates
from validate.gate.given import Given

NAMES = toml_files.names(gates.PROFILES)
GIVEN = Given(("http://d:1",), ("http://s:1", "http://s:2"), ("torchrun",))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("record", [None, Path("runs/x/record")], ids=["new", "resumed"])
def test_commands_parse(name: str, record: Path | None) -> None:
    commands = get_command(cli.app).commands
    for one in gates.load(name).steps:
        words = GIVEN.first(one, Path("runs/x"), record)[3:]
        commands[words[0]].make_context(words[0], words[1:])


@pytest.mark.parametrize("name", NAMES)
def test_what_commands_name_is_there(name: str) -> None:
    known = {"equivalence": arm.load, "long-output": arm.load, "evals": suite.load}
    for one in gates.load(name).steps:
        layer, *words = one.command
        if layer in known:
            loaded = known[layer](words[0])
            of = loaded.arms if layer == "evals" else loaded.name
            assert ("gb300" in of) == name.startswith("gb300")
        if layer == "numerics":
            assert profiles.load(words[words.index("--profile") + 1])
        if name.startswith("gb300"):
            tp = int(name.removeprefix("gb300-tp"))
            if layer in known:
                loaded = loaded.arm_set() if layer == "evals" else loaded
                assert loaded.engine["tensor_parallel_size"] == tp
                assert loaded.engine["max_model_len"] == 65536  # one server of each path answers all


def test_the_three_are_there() -> None:
    assert NAMES == ["cpu", "gb300-tp16", "gb300-tp8"]
    assert [one.name for one in gates.load("gb300-tp8").steps] == [one.name for one in gates.load("gb300-tp16").steps]


@pytest.mark.parametrize(
    ("steps", "budget", "says"),
    [
        ([step("a", minutes=3), step("b", minutes=3)], 5, "the steps' add up to 6 min, and all of it is 5"),
        ([step("a", minutes=3), step("b", minutes=2)], 9, "b is cheaper than a before it"),
        ([step("a"), step("a")], 9, "two are named a"),
        ([step("../a")], 9, "name: String should match"),
        ([step("a", needs=["gpu"])], 9, "needs.0: Input should be"),
        ([step("a", minutes=0)], 9, "budget: Input should be greater than 0"),
    ],
)
def test_malformed(tmp_path: Path, steps: list[dict[str, object]], budget: float, says: str) -> None:
    with pytest.raises(InputError) as raised:
        gates.load(profile(tmp_path, *steps, budget=budget))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
