"""Declared rounding points, and the ensemble of references that they span.

A path rounds some intermediates (KDA's projected gate to bf16, say). A float64 reference that rounds at the same points
agrees with a correct kernel to the kernel's fp32 accumulation error - except where a value lies so close to a rounding
boundary that this error decides the side. So a reference is evaluated several times: once as it is, and with every
declared value moved by the accumulation error before it is rounded. How far the members lie apart is how far two correct
implementations may.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from validate.model.draws import Draws

U32 = 2.0**-24  # unit roundoff of fp32
KEPT_WEIGHT = 1 << 25  # elements of a weight whose wide copies are kept: 12 bytes each


# To a dtype, by a function (block formats: reference/microscaling.py), or not at all.
Rounding = torch.dtype | Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class Point:
    """A place where a path rounds, or (``None``) only accumulates in fp32. ``source`` says where that was read."""

    default: Rounding
    specialized: Rounding
    source: str

    def rounds(self, path: str) -> Rounding:
        """What the path rounds to here; for ``common``, if both paths round to the same."""
        if path == "common":
            return self.default if self.default == self.specialized else None
        return self.specialized if path == "specialized" else self.default


class Member(Enum):
    """One member of the ensemble: as it is, every value moved up, down, or by random shares of its error."""

    NOMINAL = 0
    UP = 1
    DOWN = 2
    RANDOM = 3


class Points:
    """Applies the declared points of one path inside one evaluation of a reference.

    ``path`` is ``default``, ``specialized`` or ``common``: the points that both paths round in the same dtype, which
    is the reference for comparing one path with the other. ``given`` holds a subject's discrete outputs, so that what
    follows a near-tied choice is judged on the choice made.
    """

    def __init__(
        self,
        path: str,
        member: Member = Member.NOMINAL,
        products: dict[tuple, Any] | None = None,
        given: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.path = path
        self.member = member
        self.given = given or {}
        self._passed: set[Point] = set()
        self._draws = Draws("ensemble", member.name)
        self._products = {} if products is None else products

    def __call__(self, point: Point, value: Tensor, error: Tensor | float) -> Tensor:
        """``value`` (float64) after the point.

        ``error`` bounds what fp32 arithmetic may have added before the point (absolute, broadcastable to ``value``).
        """
        rounding = point.rounds(self.path)
        if self.member is Member.UP:
            value = value + error
        elif self.member is Member.DOWN:
            value = value - error
        elif self.member is Member.RANDOM:
            value = value + error * (2 * self._draws.uniform(tuple(value.shape)) - 1)
        if rounding is None:
            return value
        self._passed.add(point)
        return value.to(rounding).double() if isinstance(rounding, torch.dtype) else rounding(value)

    def of_a_stage(self, given: Mapping[str, Tensor] | None = None) -> "Points":
        """The same path and member for one stage of a whole step, with products of its own."""
        points = Points(self.path, self.member, given=given)
        points._draws = self._draws
        return points

    def on(self, path: str) -> "Points":
        """The same member on another path: for stages that only one path has, whose points are then all runs' in common."""
        return Points(path, self.member, self._products, self.given)

    @property
    def rounded(self) -> int:
        """How many different points have rounded so far."""
        return len(self._passed)

    def once(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """``compute()``, kept for the call's other references: for steps whose points both paths round alike."""
        key = (name, self.member)
        if key not in self._products:
            self._products[key] = (compute(), frozenset(self._passed))
        value, passed = self._products[key]
        self._passed |= passed
        return value

    def fixed(self, name: str, compute: Callable[[], Any]) -> Any:
        """``compute()``, kept for all members of all references of the call: for steps before any value is moved."""
        key = (name, "fixed")
        if key not in self._products:
            self._products[key] = compute()
        return self._products[key]

    def matmul(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """``x @ weight.T`` in float64 and the error of summing its products in fp32, any order. x [m, k], weight [n, k].

        Products of bf16 are exact in fp32. Scalar code rounds k - 1 partial sums to nearest: partial sums of terms without a
        common sign grow as the 2-norm of the terms, so the roundings add up to about U32 * sqrt(k) * norm(terms) (Higham,
        Accuracy and Stability of Numerical Algorithms, sections 2.8 and 4.2). Tensor cores cut off towards zero, once per 16
        products and by up to 2 * U32 of the partial sum, always in the same direction: U32 * (k / 8) * norm(terms)
        (measured on an H200, ``paths/emulated/arithmetic.py``). The error is the sum of both; k counts the elements of x that
        are not zero, as adding a zero rounds nothing.
        Kept between the members of an ensemble, whose first product is always the same.
        """
        key = (id(x), id(weight))
        if key not in self._products:
            x64 = x.double()
            squares = x64.square().float()
            value = torch.empty(x.shape[0], weight.shape[0], dtype=torch.float64)
            norm = torch.empty_like(value)
            for start in range(0, weight.shape[0], 1024):
                rows = slice(start, start + 1024)
                part, part_squares = self._wide(weight, start)
                value[:, rows] = x64 @ part.T
                norm[:, rows] = (squares @ part_squares.T).double().sqrt()
            error = sum_error(norm, (x != 0).sum(1, keepdim=True))
            self._products[key] = (value, error, x, weight)  # x and weight stay alive, so their ids stay theirs
        return self._products[key][:2]

    def _wide(self, weight: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """1024 rows of a weight from ``start`` on in float64, and their squares in fp32 (bounds the copies of a large weight).

        Kept between the members of an ensemble, which multiply other intermediates by the same weight, while that takes 400 MB
        at most.
        """
        key = (id(weight), start, "wide")
        if key in self._products:
            return self._products[key]
        part = weight[start : start + 1024].double()
        wide = part, part.square().float()
        if weight.numel() <= KEPT_WEIGHT:
            self._products[key] = wide
        return wide


def sum_error(norm: Tensor, count: int | Tensor) -> Tensor:
    """Error of summing ``count`` products in fp32, given the 2-norm of the products (see ``Points.matmul``)."""
    return U32 * (count**0.5 + count / 8) * norm


def chain_error(terms: Tensor) -> Tensor:
    """Error of adding up bf16 numbers, over the first dimension, in fp32, in any order, rounding to nearest.

    None where the sum of their absolute values stays below 2**24 units of the finest of them: then every partial sum is exact. So
    it is with most sums over ranks, which often lie exactly midway between two bf16.
    """
    units = torch.where(terms == 0, torch.inf, torch.ldexp(torch.ones_like(terms), torch.frexp(terms)[1] - 8))
    rounded = terms.abs().sum(0) > 2.0**24 * units.amin(0)
    return torch.where(rounded, U32 * terms.shape[0] ** 0.5 * terms.norm(dim=0), 0.0)


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """RMSNorm over the last dimension in float64: x * rsqrt(mean(x**2) + eps) * weight (Zhang and Sennrich, 2019)."""
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight.double()
