"""The gate, with streams that only count."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.races.gpu.test_trial import kernel
from validate.races.gpu.bench import GATE, LONGEST_GATE, Bench


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    cycles: list[int] = []
    monkeypatch.setattr(torch.cuda, "_sleep", cycles.append)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return cycles


def bench(opened: bool) -> Bench:
    """``opened``: whether its gate is open again before all is launched."""
    made: Any = object.__new__(Bench)
    ready = SimpleNamespace(query=lambda: True)
    made.main, made.side, made.third = (SimpleNamespace(wait_event=lambda _: None, record_event=lambda: ready) for _ in range(3))
    made._gate = SimpleNamespace(record_event=lambda: SimpleNamespace(query=lambda: opened))
    made._cycles, made._opened, made.late = GATE, None, 0
    return made  # type: ignore[no-any-return]


def launched(of: Bench, repeats: int) -> None:
    for _ in range(repeats):
        of.gate()
        of.finish(kernel())


def test_a_gate_that_opened_too_early_stays_closed_for_longer_and_that_is_counted(slept: list[int]) -> None:
    late = bench(opened=True)
    launched(late, 7)
    assert slept == [GATE, 2 * GATE, 4 * GATE, 8 * GATE, 16 * GATE, LONGEST_GATE, LONGEST_GATE]
    assert late.late == 7


def test_a_gate_that_was_closed_until_all_was_launched_stays_as_it_is(slept: list[int]) -> None:
    ready = bench(opened=False)
    launched(ready, 3)
    assert (slept, ready.late) == ([GATE] * 3, 0)


def test_without_a_gate_nothing_is_late() -> None:
    ungated = bench(opened=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "synchronize", lambda: None)
        ungated.finish(kernel())
    assert ungated.late == 0
