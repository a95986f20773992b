"""A deployment's every refusal at once, its steps, and files that cannot be read."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Tool
from validate.doctor import deployment, graphs, own, steps
from validate.errors import InputError
from validate.paths import dispatch
from validate.preflight.finding import RUNTIME

ASK = {"decode_backend": "latency_specialized"}
SOUND = {"tensor_parallel_size": 16, "kv_cache_dtype": "fp8", "additional_config": ASK, "watchdog_config": {"dump_dir": "d"}}
# Each breaks one rule of vLLM's.
BROKEN = {
    "tensor_parallel_size": 4,
    "pipeline_parallel_size": 2,
    "enable_expert_parallel": True,
    "enable_lora": True,
    "enable_sleep_mode": True,
    "enforce_eager": True,
    "use_replayssm": True,
    "mamba_ssm_cache_dtype": "bfloat16",
    "speculative_config": {"method": "eagle3", "num_speculative_tokens": 9},
}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A deployment's file, in JSON, of the sound one with other arguments."""
    for name in ("VLLM_USE_V2_MODEL_RUNNER", "VLLM_KIMI_K3_AUX_ATTN_RES_STREAM"):
        monkeypatch.delenv(name, raising=False)

    def made(**changes: object) -> Path:
        path = tmp_path / "engine.json"
        path.write_text(json.dumps(SOUND | changes))
        return path

    return made


def described(path: Path, capability: str = "10.3") -> deployment.Described:
    return deployment.read(path, None, capability)


def lines(d: deployment.Described, vllm_src: Path | None) -> tuple[int, list[str]]:
    answer = deployment.examine(d, vllm_src)
    return answer.verdict.exit_code, list(answer.lines)


def test_a_sound_deployment_passes_by_vllms_own_word(write: Write, vllm_source: Path) -> None:
    code, said = lines(described(write()), vllm_source)
    assert code == 0
    assert said[0] == f"asked: vLLM 0.33.0's own check, {vllm_source / RUNTIME}"
    assert said[1] == "vLLM runs it specialized"
    assert any("by vLLM's own plan()" in line for line in said)
    assert not any("vLLM's own plan() says" in line for line in said)


def test_every_rule_that_is_broken_is_named_at_once(write: Write, vllm_source: Path) -> None:
    d = described(write(**BROKEN), "9.0")
    code, said = lines(d, vllm_source)
    assert code == 3
    reasons = own.reasons(vllm_source, d.deployment)
    assert len(reasons) == 11  # the GPU, eight of BROKEN, and two of its last
    assert said[1] == "vLLM does not run it specialized, 11 reasons:"
    assert said[2:13] == [f"  {reason}" for reason in reasons]
    assert sum(line.startswith("refuse vLLM: ") for line in said) == 11
    assert not any("pre-flight's reading of that check" in line for line in said)
    assert "no step runs specialized" in said


def test_without_vllms_files_the_preflight_answers_and_says_so(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(folder: Path | None) -> None:
        raise InputError("vLLM is not installed")

    monkeypatch.setattr("validate.paths.vllm.source.opened", nothing)
    code, said = lines(described(write(tensor_parallel_size=4, enable_lora=True)), None)
    assert code == 3
    assert "the answers are the pre-flight's, from reading vLLM 0.33.0" in said[0]
    assert sum(line.startswith("refuse vLLM: ") for line in said) == 2
    assert "no step runs specialized" in said
    assert lines(described(write()), None)[0] == 0


def test_what_is_not_asked_for_or_misspelt(write: Write, vllm_source: Path) -> None:
    for changes, what in (({}, "names no decode_backend"), ({"decode_backend": "fast"}, "auto/latency_specialized")):
        reasons = own.reasons(vllm_source, described(write(additional_config=changes, enable_lora=True)).deployment)
        assert len(reasons) == 2
        assert what in " ".join(reasons)


def test_a_check_that_differs_from_the_preflights_is_noticed(write: Write, vllm_source: Path, tmp_path: Path) -> None:
    """Planted: a vLLM that serves LoRA, one with another rule, and one whose plan() serves verify steps only."""
    root = tmp_path / "other"
    for file in (RUNTIME, own.DECODE):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text((vllm_source / file).read_text())
    text = (root / RUNTIME).read_text()
    (root / RUNTIME).write_text(text.replace('(vllm_config.lora_config is not None, "LoRA"),', ""))
    _, said = lines(described(write(enable_lora=True)), root)
    assert "the pre-flight's reading of that check finds 1: it is not this vLLM's, which counts" in said
    assert said[0].startswith("asked: vLLM unknown's own check")
    (root / RUNTIME).write_text(text.replace("checks = (", 'checks = ((True, "Mondays"),', 1))
    code, said = lines(described(write()), root)
    assert (code, said[2]) == (3, "  Mondays")
    (root / RUNTIME).write_text(text)
    decode = (root / own.DECODE).read_text()
    (root / own.DECODE).write_text(decode.replace("        if b % q:\n", "        if b % q or b == 16:\n"))
    _, said = lines(described(write()), root)
    assert "  a graph of 16 rows: vLLM's own plan() says default, this project specialized" in said
    (root / RUNTIME).write_text("from vllm.new import thing\n")
    with pytest.raises(InputError, match="is not as in vLLM 0"):
        lines(described(write()), root)
    (root / RUNTIME).unlink()
    with pytest.raises(InputError, match="has no specialized decode of Kimi K3"):
        lines(described(write()), root)


def of(path: Path) -> list[str]:
    return [str(one) for one in steps.of(described(path).deployment)]


def test_the_steps_of_a_deployment_without_drafts(write: Write) -> None:
    assert of(write()) == [
        "specialized  decode, 1 row a request, 1 to 64 requests: padded to graphs of 1, 2, … 64 rows",
        "default      decode, 1 row a request, 65 to 1024 requests: no prepared kernels for this size: "
        "padded to graphs of 72, 80, … 1024 rows",
        "default      decode, 1 row a request, 1025 requests or more: more rows than the largest graph",
        "default      decode beside a prompt or a part of one, any number of requests: prompt rows",
        "default      prompts alone, any number of requests: prompt rows",
    ]


# Requests of q rows that the largest graph of up to 64 rows holds, with the sizes that vLLM chooses: 64 is rounded up to 66 rows
# where q is 3 and to 70 where it is 7, so that 20 and 9 requests, of no more than 64 rows, fall back.
MOST = {2: 32, 3: 19, 4: 16, 5: 12, 6: 10, 7: 8, 8: 8}


@pytest.mark.parametrize("q", MOST)
def test_verify_steps_run_specialized_up_to_64_rows(write: Write, q: int) -> None:
    drafts = {"method": "dspark", "num_speculative_tokens": q - 1}
    said = of(write(speculative_config=drafts))
    assert said[0].startswith(f"specialized  verify, {q} rows a request, 1 to {MOST[q]} requests")
    assert f"default      verify, {q} rows a request, {MOST[q] + 1} to " in said[1]
    assert "default      some requests with fewer drafts, any number of requests: partial drafts" in said
    assert "default      nothing drafted, any number of requests: partial drafts" in said


def test_drafts_that_the_checkpoint_tells_are_shown_for_every_number(write: Write) -> None:
    said = of(write(speculative_config={"method": "dspark"}))
    assert [f"verify, {q} rows a request, 1 to {MOST[q]} requests" in " ".join(said) for q in steps.QUERIES] == [True] * 7


def test_odd_sizes(write: Write) -> None:
    """Sizes that are given: 5 and 24 rows have graphs and kernels, 100 has a graph alone."""
    assert of(write(cudagraph_capture_sizes=[100, 5, 24]))[:3] == [
        "specialized  decode, 1 row a request, 1 to 24 requests: padded to graphs of 5, 24 rows",
        "default      decode, 1 row a request, 25 to 100 requests: no prepared kernels for this size: "
        "padded to graphs of 100 rows",
        "default      decode, 1 row a request, 101 requests or more: more rows than the largest graph",
    ]
    (line,) = [line for line in of(write(max_num_seqs=12)) if line.startswith("specialized")]
    assert line.endswith("1 to 12 requests: padded to graphs of 1, 2, 4, 8, 12 rows")


def test_the_steps_agree_with_vllms_own_plan(write: Write, vllm_source: Path) -> None:
    for q in range(1, 9):
        deployed = graphs.deployed(described(write()).deployment, q)
        assert steps.disagreements(deployed, own.plans(vllm_source, deployed)) == []
    wrong = dict.fromkeys(dispatch.Deployment().graphs, False)
    assert len(steps.disagreements(dispatch.Deployment(), wrong)) == len(wrong)


COMMAND = """export VLLM_USE_V2_MODEL_RUNNER=0  # set before it
# the head node
VLLM_KIMI_K3_AUX_ATTN_RES_STREAM=1 vllm serve org/K3 -tp 8 \\
    --additional-config '{"decode_backend": "latency_specialized"}' --max-num-seqs 64 \\
    --no-such 3
"""


def test_a_command_is_read_with_its_variables(tmp_path: Path) -> None:
    file = tmp_path / "serve.sh"
    file.write_text(COMMAND)
    found = described(file)
    assert found.deployment.engine.tensor_parallel_size == 8
    assert found.deployment.engine.max_num_seqs == 64
    assert found.deployment.environment["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert found.deployment.environment["VLLM_KIMI_K3_AUX_ATTN_RES_STREAM"] == "1"
    assert found.ignored == ("--no-such",)


def test_a_script_around_the_command_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "serve.sh"
    file.write_text("#!/bin/sh\nset -eu\ncd /srv\nV=1 exec nohup /opt/bin/vllm serve K3 -tp 8 > log 2>&1 &\nwait\n")
    found = described(file)
    assert found.deployment.engine.tensor_parallel_size == 8
    assert found.deployment.environment["V"] == "1"
    assert found.ignored == ()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.toml", "x = ", "malformed engine arguments"),
        ("a.json", "[1]", "a table of arguments is wanted"),
        ("a.json", '{"tensor_parallel_size": "many"}', "tensor_parallel_size"),
        ("a.json", '{"dtype": "int3"}', "dtype int3"),
        ("a.json", '{"compilation_config": {"mode": 9}}', "compilation mode 9"),
        ("a.sh", "", "a vllm serve command is wanted"),
        ("a.sh", "vllm bench serve", "a vllm serve command is wanted"),
        ("a.sh", "vllm serve 'K3", "No closing quotation"),
        ("a.sh", "vllm serve K3 -tp", "-tp needs a value"),
        ("a.sh", "vllm serve K3 -tp 8 reboot", "follows no option"),
        ("a.sh", "vllm serve K3 -tp 8 &\nvllm serve K3 -tp 16 &", "2 vllm serve commands"),
        ("a.sh", "vllm serve K3 -tp $TP", r"'\$TP' is a shell's to replace"),
        ("a.sh", "TP=$(nproc)\nvllm serve K3 -tp $TP", r"is a shell's to replace"),
        ("a.sh", "vllm serve K3 -tp ${TP:-$N}", r"is a shell's to replace"),
        ("a.sh", "VLLM_USE_V2_MODEL_RUNNER=maybe vllm serve K3", "vLLM takes 0 or 1"),
        ("a.sh", None, "cannot read the deployment"),
        ("a.toml", None, "cannot read the engine arguments"),
        ("a.sh", b"\xff\xfe\x00", "malformed deployment"),
    ],
)
def test_malformed_files_are_one_line(tmp_path: Path, vllm_source: Path, name: str, text: str | bytes | None, says: str) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=says) as refused:
        lines(described(file), vllm_source)
    assert "\n" not in str(refused.value)


def test_what_a_script_sets_itself_is_put_in_and_places_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "serve.sh"
    file.write_text(
        "set -e\nTP=16\nexport KV=${KV:-fp8}\nMODEL=/models/k3\n"
        'VLLM_COMPUTE_NANS_IN_LOGITS=1 vllm serve "$MODEL" -tp $TP --kv-cache-dtype "${KV}" --max-num-seqs ${SEQS:-64} \\\n'
        '  --node-rank "$SLURM_NODEID" --master-addr "$HEAD" --port=$PORT\n'
    )
    given, variables = deployment.command(file)
    assert given["tensor_parallel_size"] == 16
    assert (given["kv_cache_dtype"], given["max_num_seqs"]) == ("fp8", 64)
    assert not {"node_rank", "master_addr", "port"} & set(given)
    assert variables["VLLM_COMPUTE_NANS_IN_LOGITS"] == "1"
    file.write_text("vllm serve $MODEL -tp 8\n")
    assert deployment.command(file)[0]["tensor_parallel_size"] == 8


def test_the_command_line(tool: Tool, vllm_source: Path) -> None:
    (tool.cwd / "a.toml").write_text("tensor-parallel-size = 4\nenable-lora = true\n")
    done = tool("doctor", "--deployment", "a.toml", "--vllm-src", str(vllm_source))
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines()[-1].startswith("INVALID  ")
    (tool.cwd / "a.toml").write_text("tensor-parallel-size =\n")
    assert "malformed engine arguments a.toml" in tool.refused("doctor", "--deployment", "a.toml")
    assert "name that with --deployment" in tool.refused("doctor", "--model-config", "c.json")
