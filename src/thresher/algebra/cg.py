"""The conjugate gradient method, from any starting point, with anything as a preconditioner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from thresher.algebra.system import EPS, Search, System, Vector, norm, ratio
from thresher.interfaces import Gram, Solution

__all__ = ["Apply", "ConjugateFactor", "ConjugateGradient", "Jacobi", "Preconditioner"]

Apply = Callable[[Vector], Vector]


class Preconditioner(Protocol):
    """Makes a cheap approximate inverse of G + added, symmetric and positive definite."""

    def prepare(self, gram: Gram, *, added: float | Vector, iteration: int) -> Apply:
        """Return a function that applies the approximate inverse to a vector (n,)."""


@dataclass(frozen=True)
class Jacobi:
    """Divide by the diagonal; where it is zero nothing can be reached, and the answer is zero. Cost: O(n)."""

    def prepare(self, gram: Gram, *, added: float | Vector, iteration: int) -> Apply:
        """Return division by the diagonal."""
        diagonal = gram.diagonal() + added
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        return lambda vector: vector * inverse


@dataclass(frozen=True)
class ConjugateGradient:
    """Preconditioned conjugate gradient; on a singular system the best iterate, said to be inexact.

    Parameters
    ----------
    tol : stop when ||(G + added) g - r|| <= tol ||r||
    preconditioner : anything with ``prepare``, e.g. ``Jacobi()``, ``SketchQR()``, or what ``Cholesky().prepare`` has
        returned for a matrix that is near
    max_iterations : inner iterations at the most, None for 10 n + 100

    Cost: one product with G for each inner iteration, one for a starting point, one to make sure.
    """

    tol: float = 1e-10
    preconditioner: Preconditioner = field(default_factory=Jacobi)
    max_iterations: int | None = None

    def prepare(self, gram: Gram, *, added: float | Vector = 0.0, iteration: int = 0) -> ConjugateFactor:
        """Prepare the preconditioner for G + added."""
        apply = self.preconditioner.prepare(gram, added=added, iteration=iteration)
        most = 10 * gram.size + 100 if self.max_iterations is None else self.max_iterations
        # A singular matrix may have been repaired: then what the preconditioner was made for is solved.
        return ConjugateFactor(System(gram, getattr(apply, "added", added)), apply, tol=self.tol, most=most)


@dataclass(frozen=True)
class ConjugateFactor:
    """A system and an approximate inverse of it."""

    system: System
    apply: Apply
    tol: float
    most: int

    def solve(self, rhs: Vector, *, x0: Vector | None = None) -> Solution:
        """Return the solution for right-hand side (n,), searched from ``x0`` (n,) on."""
        system, n = self.system, len(rhs)
        search = Search(system, rhs, self.tol, x0=x0)
        direction, energy = np.zeros(n), 0.0
        while search.goes_on(self.most):
            steepest = self.apply(search.residual)
            previous, energy = energy, float(search.residual @ steepest)
            direction = steepest + ratio(energy, 0.0 if search.restarted else previous) * direction
            change = system.times(direction)
            curvature = float(direction @ change)
            rounding = n * EPS * norm(direction) * norm(change)
            search.step(direction, change, ratio(energy, curvature) if curvature > rounding else 0.0)
        found = search.solution(repaired=getattr(self.apply, "repaired", False))
        return found._replace(sketch_rows=getattr(self.apply, "rows", 0))
