"""Engine arguments from a line and from files, and what is refused in them."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import Tool
from validate.errors import InputError
from validate.preflight.arguments import from_file, from_words
from validate.preflight.deployment import engine

ASKED = """--additional-config={"decode_backend": "latency_specialized"}"""
WATCHED = ("--watchdog-config.dump_dir", "dumps")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["vllm", "serve", "org/K3", "-tp", "16"], {"tensor_parallel_size": 16}),
        (["--tensor_parallel_size=8", "--enforce-eager"], {"tensor_parallel_size": 8, "enforce_eager": True}),
        (["--no-enable-eplb", "-ep"], {"enable_eplb": False, "enable_expert_parallel": True}),
        (["--kv-cache-dtype", "fp8", "-O3"], {"kv_cache_dtype": "fp8", "optimization_level": 3}),
        (["-O", "0"], {"optimization_level": 0}),
        (["--cudagraph-capture-sizes", "1", "2", "4"], {"cudagraph_capture_sizes": [1, 2, 4]}),
        (["--cudagraph-capture-sizes", "64"], {"cudagraph_capture_sizes": [64]}),
        ([ASKED], {"additional_config": {"decode_backend": "latency_specialized"}}),
        (
            ["--additional-config.decode_backend", "auto", "--additional-config.mla-core=trtllm"],
            {"additional_config": {"decode_backend": "auto", "mla_core": "trtllm"}},
        ),
        (["--seed", "-1"], {"seed": -1}),
    ],
)
def test_words(words: list[str], expected: dict[str, Any]) -> None:
    assert from_words(words) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--enforce-eager", "org/K3"], "--enforce-eager takes no value"),
        (["--additional-config", "{'a': 1}"], "no JSON"),
        (["--config", "serve.yaml"], "--config is not read here"),
    ],
)
def test_words_that_are_refused(words: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        from_words(words)


def test_values_of_the_wrong_kind_are_named() -> None:
    with pytest.raises(InputError, match=r"tensor_parallel_size: .*integer"):
        engine({"tensor_parallel_size": "many"})


@pytest.mark.parametrize(("name", "text"), [("a.toml", "tensor-parallel-size = 8\n"), ("a.json", '{"tensor-parallel-size": 8}')])
def test_files(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert from_file(tmp_path / name) == {"tensor_parallel_size": 8}


@pytest.mark.parametrize(("name", "text"), [("a.toml", "x = "), ("a.json", "[1]"), ("a.json", "{"), ("a.toml", None)])
def test_files_that_are_refused(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="engine arguments"):
        from_file(tmp_path / name)


def test_a_sound_deployment_ends_with_0_and_warnings_with_2(tool: Tool, config_json: Path) -> None:
    sound = ("preflight", "--model-config", str(config_json), "--", "-tp", "16", "--kv-cache-dtype", "fp8", ASKED)
    done = tool(*sound, *WATCHED)
    assert (done.returncode, done.stdout) == (0, "PASS  0 refused, 0 warnings, for GPUs of compute capability 10.3\n"), done
    done = tool(*sound)
    assert done.returncode == 2, done
    assert done.stdout.startswith("warn G6: ")


def test_an_unsupported_deployment_ends_with_3_and_every_reason(tool: Tool, config_json: Path) -> None:
    (tool.cwd / "engine.toml").write_text('tensor-parallel-size = 4\nmoe-backend = "flashinfer_trtllm"\n')
    given = ("--model-config", str(config_json), "--arguments", "engine.toml", "--capability", "9.0")
    done = tool("preflight", *given, "--", ASKED)
    assert done.returncode == 3, done
    names = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert names[:-1] == ["refuse vLLM", "refuse vLLM", "refuse G1", "warn A/B", "warn G6"]
    assert done.stdout.splitlines()[-1].startswith("INVALID  3 refused, 2 warnings")


@pytest.mark.parametrize(
    ("text", "capability", "says"),
    [(None, "10.3", "cannot read"), ("[]", "10.3", "holds no object"), ("{", "10.3", "malformed"), ("{}", "new", "two numbers")],
)
def test_what_is_refused_on_the_command_line(tool: Tool, text: str | None, capability: str, says: str) -> None:
    if text is not None:
        (tool.cwd / "c.json").write_text(text)
    assert says in tool.refused("preflight", "--model-config", "c.json", "--capability", capability)
