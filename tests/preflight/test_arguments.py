"""Engine arguments from a line and from files, and what is refused in them."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import Tool
from validate.errors import InputError
from validate.preflight.arguments import LONG, SHORT, from_file, from_words
from validate.preflight.deployment import engine

ASKED = """--additional-config={"decode_backend": "latency_specialized"}"""
SHORTENED = {"tensor_parallel_size": 16, "enforce_eager": False, "enable_sleep_mode": False}
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
            {"additional_config": {"decode_backend": "auto", "mla-core": "trtllm"}},  # vLLM takes keys as they are
        ),
        (["--additional-config.a", "x", "--additional-config.a.b", "y"], {"additional_config": {"a": {"b": "y"}}}),
        (
            ["-cc.mode", "3", "-cc.cudagraph_capture_sizes+=1,2"],
            {"compilation_config": {"mode": 3, "cudagraph_capture_sizes": ["1", "2"]}},
        ),
        (["-sc", '{"model": "m"}', "-sc.method", "dspark"], {"speculative_config": {"method": "dspark"}}),
        (["-tp", "16", "org/K3"], {"tensor_parallel_size": 16}),
        (["serve", "--enforce-eager", "org/K3"], {"enforce_eager": True}),
        (["--tensor-parallel", "16", "--no-enforce", "--disable-sleep"], SHORTENED),
        (["--seed", "-1", "-tp16", "--no-such", "a", "b"], {"--seed": ["-1"], "-tp16": [], "--no-such": ["a", "b"]}),
        (["--enable-e", "--kv-cache.x", "1"], {"--enable-e": [], "--kv-cache.x": ["1"]}),  # the starts of several
    ],
)
def test_words(words: list[str], expected: dict[str, Any]) -> None:
    assert from_words(words) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--enforce-eager=yes"], "--enforce-eager takes no value"),
        (["--tensor-parallel-size", "--enforce-eager"], "--tensor-parallel-size needs a value"),
        (["--additional-config.decode_backend"], "--additional-config.decode_backend needs a value"),
        (["org/K3", "-tp", "16", "org/K4"], "'org/K4' follows no option that takes it, and the model is 'org/K3'"),
        (["-sc", "x", "-sc.method", "dspark"], "--speculative-config is 'x', which has no keys"),
        (["--additional-config", "{'a': 1}"], "no JSON"),
        (["--config", "serve.yaml"], "--config is not read here"),
    ],
)
def test_words_that_are_refused(words: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        from_words(words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-tp", "many"], r"tensor_parallel_size: .*integer"),
        (["--compilation-config.cudagraph_capture_sizes", "1"], r"compilation_config\.cudagraph_capture_sizes: .*list"),
        (["-sc", "x"], r"speculative_config: .*dictionary"),
    ],
)
def test_values_of_the_wrong_kind_are_named(words: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        engine(from_words(words))


def test_a_shortened_name_means_what_it_means_to_vllm(vllm_source: Path) -> None:
    """Each option is one of vLLM's, and none is the start of one of ours and another one of vLLM's."""
    text = (vllm_source / "vllm/engine/arg_utils.py").read_text()
    theirs = set(re.findall(r'"(--[a-z0-9-]+)"', text))
    assert {option for option in LONG if option not in theirs} == set()
    assert {option for option in theirs - set(LONG) if any(ours.startswith(option) for ours in LONG)} == set()
    pairs = set(
        re.findall(r'"(--[a-z0-9-]+)",\s*"(-[a-z]+)"', text)
        + [pair[::-1] for pair in re.findall(r'"(-[a-z]+)",\s*"(--[a-z0-9-]+)"', text)]
    )
    assert {(f"--{name.replace('_', '-')}", short) for short, name in SHORT.items() if short != "-O"} <= pairs


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.toml", "tensor-parallel-size = 8\nno-such = 1\n"), ("a.json", '{"tensor_parallel_size": 8, "no-such": 1}')],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert from_file(tmp_path / name) == {"tensor_parallel_size": 8, "no-such": 1}


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


def test_what_no_finding_reads_is_named_and_the_model_may_stand_last(tool: Tool, config_json: Path) -> None:
    sound = ("-tp", "16", "--kv-cache-dtype", "fp8", ASKED, *WATCHED)
    done = tool("preflight", "--model-config", str(config_json), "--", "--enable-sleep-mod3", "-tp16", *sound, "org/K3")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[0] == "not looked at: --enable-sleep-mod3, -tp16"
    assert done.stdout.splitlines()[1].startswith("PASS  0 refused, 0 warnings")
    shortened = tool("preflight", "--model-config", str(config_json), "--", "--enable-sleep", *sound)
    assert "sleep mode" in shortened.stdout


def test_the_help_says_that_the_environment_counts(tool: Tool) -> None:
    assert "VLLM_*" in tool("preflight", "--help").stdout


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
    [
        (None, "10.3", "cannot read"),
        ("[]", "10.3", "holds no object"),
        ("{", "10.3", "malformed"),
        ('{"linear_attn_config": {}}', "new", "two numbers"),
        ('{"linear_attn_config": [1]}', "10.3", "linear_attn_config is no object"),
    ],
)
def test_what_is_refused_on_the_command_line(tool: Tool, text: str | None, capability: str, says: str) -> None:
    if text is not None:
        (tool.cwd / "c.json").write_text(text)
    assert says in tool.refused("preflight", "--model-config", "c.json", "--capability", capability)
