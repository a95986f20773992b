"""Draws that hang on benchmark, item and repeat alone, so that both arms make the same ones."""

import hashlib


def seed(benchmark: str, item: str, repeat: int, again: bool = False) -> int:
    """The request's sampling seed, 0 to 2**31 - 1.

    ``again``: of the default path against itself, whose samples must not be copies: with the same seeds they would be wherever
    the same engine rounds alike, and say nothing of sampling noise.
    """
    return _number(f"seed/{benchmark}/{item}/{repeat}{'/again' * again}") % 2**31


def permutation(benchmark: str, item: str, repeat: int, n: int) -> list[int]:
    """An order of n options, uniform over items and repeats: place by place, the place's option."""
    return sorted(range(n), key=lambda option: _number(f"order/{benchmark}/{item}/{repeat}/{option}"))


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
