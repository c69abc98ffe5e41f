"""A system (G + added) g = r, and the search for its solution that all inner iterations share.

No solver raises for a singular G and none returns NaN: the status of the solution says what was done instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Gram, Solution, SolveStatus

__all__ = ["EPS", "SINGULAR", "Apply", "Preconditioner", "Search", "System", "Vector", "norm", "ratio"]

Vector = NDArray[np.float64]
Apply = Callable[[Vector], Vector]
EPS = float(np.finfo(np.float64).eps)
SINGULAR = 1e-12  # eigenvalues below this share of the largest carry nothing


class Preconditioner(Protocol):
    """Makes a cheap approximate inverse of G + added, symmetric and positive definite."""

    def prepare(self, gram: Gram, *, added: float | Vector, iteration: int) -> Apply:
        """Return a function that applies the approximate inverse to a vector (n,)."""


class System(NamedTuple):
    """G with a number, or (n,) numbers, added to its diagonal: none below 0."""

    gram: Gram
    added: float | Vector

    def times(self, vector: Vector) -> Vector:
        """Return (G + added) @ vector (n,)."""
        return self.gram.times(vector) + self.added * vector

    def solution(self, value: Vector, status: SolveStatus, rhs: Vector, residual: Vector) -> Solution:
        """Return a solution (n,) with what can be said of it; rhs and residual may both be scaled."""
        if not np.isfinite(value).all():  # only from right-hand sides near overflow
            value, residual, status = np.zeros_like(rhs), rhs, SolveStatus.INEXACT
        size = norm(rhs)
        left = norm(residual) / size if size > 0 else 0.0
        added = self.added if isinstance(self.added, float) else float(np.mean(self.added))
        return Solution(value, status, 0, left, added, len(rhs))


class Search:
    """An iterate with its residual, the best seen so far, and the decision to go on.

    Works on the right-hand side (n,) divided by its norm, so that no scale overflows. It starts from
    zero. Progress is read off a ``gauge`` of the residual: the one that the iteration
    decreases.
    """

    PATIENCE = 500  # inner iterations without a per cent of progress

    def __init__(
        self,
        system: System,
        rhs: Vector,
        tol: float,
        *,
        gauge: Callable[[Vector], Vector] = np.asarray,
    ) -> None:
        self._unit = math.ldexp(1.0, math.frexp(norm(rhs))[1])  # a power of two: dividing by it is exact
        self._system, self._rhs = system, rhs / self._unit
        self._size = norm(self._rhs)
        self._goal, self._gauge = tol * self._size, gauge
        self._value, self.residual = np.zeros_like(self._rhs), self._rhs
        self._best: tuple[float, Vector, Vector | None] = (math.inf, self._value, self.residual)
        self._mark = (math.inf, 0)  # the gauge when it last fell by a per cent, and when that was
        self._iterations = 0
        self._done = False
        self.restarted = True  # whether the residual was computed from the iterate, not carried along with it

    def step(self, direction: Vector, change: Vector, length: float) -> None:
        """Go along a direction (n,), of which the product with the system is ``change`` (n,)."""
        if not math.isfinite(length) or length <= 0:  # no curvature left: what remains is rounding, or out of reach
            self._done = True
            return
        self._value = self._value + length * direction
        self.residual = self.residual - length * change
        self._iterations += 1
        self.restarted = False

    def goes_on(self, most: int) -> bool:
        """Look at where the last step has led; return whether another one is worth it."""
        if self._done:
            return False
        if norm(self.residual) <= self._goal and not self.restarted:  # the recurrence says so: make sure
            self.residual = self._rhs - self._system.times(self._value)
            self.restarted = True
        known = self.residual if self.restarted else None
        if known is not None and norm(known) <= self._goal:
            self._best = (0.0, self._value, known)
            return False
        size = norm(self._gauge(self.residual))
        if size < 0.99 * self._mark[0]:
            self._mark = (size, self._iterations)
        if size < self._best[0]:
            self._best = (size, self._value, known)
        return self._iterations < most and self._iterations - self._mark[1] < self.PATIENCE

    def solution(self, *, repaired: bool) -> Solution:
        """Return the best iterate; zero if none is better than that."""
        _, value, residual = self._best
        if residual is None:
            residual = self._rhs - self._system.times(value)
        if not norm(residual) <= self._size:  # worse than no step at all
            value, residual = np.zeros_like(value), self._rhs
        reached = norm(residual) <= self._goal
        status = (SolveStatus.DAMPED if repaired else SolveStatus.SOLVED) if reached else SolveStatus.INEXACT
        found = self._system.solution(self._unit * value, status, self._rhs, residual)
        return found._replace(inner_iterations=self._iterations)


def norm(vector: Vector) -> float:
    """Return the length of a vector; no overflow, and infinity for what is not a number."""
    largest = float(np.abs(vector).max(initial=0.0))
    if not math.isfinite(largest):
        return math.inf
    return largest * float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0


def ratio(numerator: float, denominator: float) -> float:
    """Return the quotient; zero where the denominator is not above zero."""
    return numerator / denominator if denominator > 0 else 0.0
