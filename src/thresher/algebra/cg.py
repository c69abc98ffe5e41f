"""The conjugate gradient method, with anything as a preconditioner."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from thresher.algebra.near import RandomPivots
from thresher.algebra.system import EPS, Apply, Preconditioner, Search, System, Vector, norm, ratio
from thresher.interfaces import Gram, Solution, Solver

__all__ = ["ConjugateFactor", "ConjugateGradient", "Jacobi", "Loose"]

# Relative residual of a solve over pairs: never coarser than this, and this share of the last contraction.
_LOOSEST, _SHARE = 0.1, 0.25


@dataclass(frozen=True)
class Jacobi:
    """Divide by the diagonal; where it is zero nothing can be reached, and the answer is zero. Cost: O(n)."""

    def prepare(self, gram: Gram, *, added: float | Vector, iteration: int) -> Apply:
        """Return division by the diagonal."""
        diagonal = gram.diagonal() + added
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        return lambda vector: vector * inverse


@dataclass(frozen=True)
class ConjugateGradient(Solver):
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

    def needs_matrix(self, inputs: int) -> bool:
        """Return whether n x n matrices are to be made: not with pivots, which look at some columns alone."""
        return self.pivots() is None and super().needs_matrix(inputs)

    def pivots(self) -> RandomPivots | None:
        """Return the preconditioner, if it needs no matrix."""
        return self.preconditioner if isinstance(self.preconditioner, RandomPivots) else None


@dataclass(frozen=True)
class Loose(ConjugateGradient):
    """Conjugate gradients as exact as the next step can use; ``tol`` is the least that is asked of them.

    A solve with the relative residual t leaves t of what is to be learnt, and the pairs that flip on the way leave a
    share c: after the step at most c + t is left. Nobody knows c before, but as steps get shorter it falls, so the last
    contraction is above it. With t a quarter of that a step is nearly as good as an exact one, for far fewer products.
    """

    def after(self, contraction: float) -> ConjugateGradient:
        """Return the solver for the step after one that left this share of the residual; NaN if there was none."""
        return replace(self, tol=max(self.tol, _SHARE * contraction if _SHARE * contraction < _LOOSEST else _LOOSEST))


@dataclass(frozen=True)
class ConjugateFactor:
    """A system and an approximate inverse of it."""

    system: System
    apply: Apply
    tol: float
    most: int

    def solve(self, rhs: Vector) -> Solution:
        """Return the solution for right-hand side (n,)."""
        system, n = self.system, len(rhs)
        search = Search(system, rhs, self.tol)
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
