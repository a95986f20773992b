"""A compiler's process that dies: whom it is held against, and that the others are compiled."""

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from validate.kernels import compiling
from validate.kernels.compiling import Compiler

DIED = {"error": "the compiler's process died"}


class Pool:
    """Compiles at once. It breaks when ``deadly`` is compiled, or before the ``broken``-th kernel is handed to it."""

    def __init__(self, deadly: str = "", broken: int | None = None) -> None:
        self.deadly, self.left = deadly, broken
        self.futures: list[Future[Any]] = []

    def submit(self, function: Any, name: str) -> Future[Any]:
        if self.left == 0:
            for future in self.futures:
                future.set_exception(BrokenProcessPool("died"))
            self.futures = []
            raise BrokenProcessPool("died")
        future: Future[Any] = Future()
        if self.left is not None:
            self.left -= 1
            self.futures.append(future)
        elif name == self.deadly:
            future.set_exception(BrokenProcessPool("died"))
        else:
            future.set_result({"registers": 8})
        return future

    def shutdown(self, *, cancel_futures: bool) -> None:
        assert cancel_futures


def compile_with(monkeypatch: pytest.MonkeyPatch, *pools: Pool) -> dict[str, Any]:
    left = iter(pools)
    monkeypatch.setattr(compiling, "ProcessPoolExecutor", lambda *_, **__: next(left))
    with Compiler(Path(), "sm_103a", (), 3) as compiler:
        return dict(compiler.compile(["a", "b", "c", "d"]))


@pytest.mark.parametrize("handed", [0, 1, 2])
def test_a_pool_that_broke_before_a_kernel_is_handed_to_it_is_replaced(monkeypatch: pytest.MonkeyPatch, handed: int) -> None:
    found = compile_with(monkeypatch, Pool(broken=handed), Pool(), Pool())
    assert found == {name: {"registers": 8} for name in "abcd"}


def test_a_kernel_that_kills_its_compiler_is_named_and_the_others_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compile_with(monkeypatch, *(Pool(deadly="b") for _ in range(4)))
    assert found == {name: {"registers": 8} for name in "acd"} | {"b": DIED}
