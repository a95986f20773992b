"""lm-eval describes the machine in every result, by programs that take seconds: once is enough."""

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def machine_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        from lm_eval import evaluator
    except ImportError:
        return
    describe = evaluator.add_env_info

    def remembered(storage: dict[str, Any]) -> None:
        if not DESCRIBED:
            describe(DESCRIBED)
        storage.update(DESCRIBED)

    monkeypatch.setattr(evaluator, "add_env_info", remembered)


DESCRIBED: dict[str, Any] = {}
