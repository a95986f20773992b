"""Which engine answers: what its workers say is believed, and held against what was asked for."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.equivalence.doubles import arm_set, served, worker
from validate.equivalence import identity
from validate.equivalence.arm import ArmSet, load
from validate.equivalence.record import Asked, record
from validate.errors import InputError
from validate.records import arm_folder
from validate.records.model import Machine
from validate.report.console import console

IMAGE = "sha256:" + "1" * 64
GB300 = Machine(system="Linux", cpu="a CPU", cores=72, memory_gib=900.0, gpus=("NVIDIA GB300, 1, 10.3",), image=IMAGE)


def gb300(**changed: Any) -> dict[str, Any]:
    return worker(machine=GB300.model_dump(mode="json")) | changed


def test_workers_of_one_engine_agree() -> None:
    found = identity.agreed([gb300(), gb300(weights=None)], "http://a")
    assert (found.machine, found.weights) == (GB300, "0" * 16)
    image = GB300.model_copy(update={"image": None}).model_dump(mode="json")
    for changed, what in (
        ({"machine": image}, "images"),
        ({"weights": "1" * 16}, "weights"),
        ({"environment": {"VLLM_X": "1"}}, "environments"),
        ({"arguments": {"seed": 1}}, "arguments"),
    ):
        with pytest.raises(InputError, match=f"http://a: its workers have different {what}: .*, worker 1, "):
            identity.agreed([gb300(), gb300(**changed)], "http://a")


def config(arms: ArmSet, backend: str | None) -> Any:
    """VLLM's configuration object, as it settles an arm set's arguments."""
    made: dict[str, dict[str, Any]] = {}
    for name, place in identity.PLACES.items():
        part, attribute = place.split(".")
        made.setdefault(part, {})[attribute] = arms.engine.get(name)
    drafts = arms.engine.get("speculative_config")
    return SimpleNamespace(
        **{part: SimpleNamespace(**fields) for part, fields in made.items()},
        speculative_config=drafts and SimpleNamespace(**drafts),
        additional_config={"decode_backend": backend} if backend else {},
    )


def found(arms: ArmSet, backend: str | None, **arguments: Any) -> identity.Identity:
    said = identity.arguments(config(arms, backend)) | arguments
    return identity.Identity(GB300, dict(arms.environment), said, "0" * 16)


@pytest.mark.parametrize("name", ["gb300-tp8", "gb300-tp16-dspark"])
def test_a_server_that_was_started_as_asked_is_the_arms(name: str) -> None:
    arms = load(name)
    for arm, backend in (("default", "auto"), ("default", None), ("specialized", "latency_specialized")):
        assert identity.unlike(found(arms, backend), arms.arguments(arm), arms.environment) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"kv_cache_dtype": "auto"}, "kv_cache_dtype is auto, not fp8"),
        ({"tensor_parallel_size": 16}, "tensor_parallel_size is 16, not 8"),
        ({"decode_backend": "latency_specialized"}, "decode_backend is latency_specialized, not auto"),
        ({"num_speculative_tokens": 3, "method": "dspark"}, "num_speculative_tokens is 3, not None"),
    ],
)
def test_another_server_is_named_by_what_it_is(changed: dict[str, Any], says: str) -> None:
    arms = load("gb300-tp8")
    assert says in identity.unlike(found(arms, "auto", **changed), arms.arguments("default"), arms.environment)


def test_variables_count_and_vllms_spelling_does_not() -> None:
    arms = load("gb300-tp8")
    there = found(arms, "auto", kv_cache_dtype="fp8_e4m3", dtype="torch.bfloat16")
    assert identity.unlike(there, arms.arguments("default") | {"dtype": "bfloat16"}, arms.environment) == []
    bare = identity.Identity(GB300, {}, there.arguments, "0" * 16)
    assert identity.unlike(bare, arms.arguments("default"), arms.environment) == ["VLLM_COMPUTE_NANS_IN_LOGITS is not set, not 1"]


def test_replicas_are_alike() -> None:
    one, other = found(load("gb300-tp8"), "auto"), identity.Identity(GB300, {}, {}, "1" * 16)
    with pytest.raises(InputError, match="the servers of the arm differ in weights: a has 0000000000000000, b has 1111"):
        identity.served({"a": one, "b": other}, {}, {})
    with pytest.raises(InputError, match="b is not the arm's server: seed is 1, not 0; start it as --commands prints"):
        identity.served({"a": one, "b": found(load("gb300-tp8"), "auto", seed=1)}, {"seed": 0}, {})


def test_a_record_is_of_the_machine_that_served_and_not_of_the_recorders(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.equivalence.doubles.worker", gb300)
    with served() as (url, _):
        record(Asked("t.toml", arm_set(), "default", tmp_path, urls=(url,)), console())
    manifest = arm_folder.read(next(tmp_path.iterdir())).manifest
    assert (manifest.machine, manifest.model) == (GB300, "0" * 16)


def test_a_worker_says_what_it_runs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("VLLM_X", "1")
    monkeypatch.setenv("VLLM_API_KEY", "hunter2")
    monkeypatch.setenv("VLLM_HOST_IP", "10.0.0.1")
    monkeypatch.setenv("K3_PARITY_IMAGE", IMAGE)
    made = config(load("gb300-tp8"), "auto")
    made.model_config.model, made.model_config.revision = str(tmp_path), None
    said = identity.of_worker(SimpleNamespace(vllm_config=made, local_rank=0))
    assert said["environment"]["VLLM_X"] == "1"
    assert "hunter2" not in str(said)
    assert "VLLM_HOST_IP" not in said["environment"]
    assert said["machine"]["image"] == IMAGE
    assert said["weights"] == identity.model_digest(str(tmp_path))
    assert said["arguments"]["kv_cache_dtype"] == "fp8"
    assert identity.of_worker(SimpleNamespace(vllm_config=made, local_rank=1))["weights"] is None
