"""The paper's solver: a sketch of the Jacobian, its QR, and gradient descent in the coordinates that it gives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.algebra.sketches import SKETCHES, Gaussian
from thresher.algebra.system import EPS, Search, System, Vector, ratio
from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.interfaces import Factor, Gram, Solution, Solver

__all__ = ["SketchQR", "Sketched", "Triangle", "paper_solver"]

_FINEST = 1e-12  # relative residual below which only rounding is left
_REPAIR = 1e-8  # damping added to a singular system, relative to the mean diagonal
_MOST_ENTRIES = 1 << 25  # of S Jᵀ: 256 MiB


@dataclass(frozen=True)
class Triangle:
    """An upper triangle T with Tᵀ T close to G + added; the paper's R is its inverse."""

    factor: NDArray[np.float64]
    rows: int  # of the sketch it was made from
    added: float | Vector  # to the diagonal, in all
    repaired: bool

    def __call__(self, vector: Vector) -> Vector:
        """Return R Rᵀ vector."""
        return self.solve(self.solve(vector, transposed=True))

    def solve(self, vector: Vector, *, transposed: bool = False) -> Vector:
        """Return R vector, or Rᵀ vector."""
        solved: Vector = linalg.solve_triangular(
            self.factor, vector, trans="T" if transposed else "N", check_finite=False
        )
        return solved

    def smallest_eigenvalue(self) -> float:
        """Return an estimate of the smallest eigenvalue of Tᵀ T, from a few inverse power steps. Cost: O(n²)."""
        vector = np.ones(len(self.factor))
        for _ in range(20):
            vector = self(vector / linalg.norm(vector))
        return 1 / float(linalg.norm(vector))


@dataclass(frozen=True)
class SketchQR:
    """The paper's preconditioner: QR of S Jᵀ, so that S Jᵀ R has orthonormal columns.

    Parameters
    ----------
    sketch : name in ``SKETCHES``
    oversampling : rows of the sketch per input; None for the paper's choice s = n poly(1/epsilon, log(n/delta)), here
        the size of a Gaussian sketch with distortion ``epsilon`` and failure probability 1/n²
    epsilon : the paper's distortion
    seed : each iteration draws a fresh sketch from (seed, iteration)

    Cost: one sketch and O(s n²).
    """

    sketch: str = "tensor"
    oversampling: float | None = 16.0
    epsilon: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sketch not in SKETCHES:
            raise InvalidInput(f"sketch must be one of {', '.join(SKETCHES)}; got {self.sketch!r}.")
        if self.oversampling is not None:
            check_number(self.oversampling, "oversampling", least=2.0)
        if not 0 < check_number(self.epsilon, "epsilon") < 1:
            raise InvalidInput(f"epsilon must be between 0 and 1; got {self.epsilon:g}.")

    def rows(self, inputs: int) -> int:
        """Return the number of rows for that many inputs; never more than fit in 256 MiB unless 2n do not.

        Deviation: the paper leaves the constants of its sketch size open; these are those of a Gaussian sketch.
        """
        if self.oversampling is None:
            wanted = Gaussian.rows_for(inputs, epsilon=self.epsilon, failure=1 / max(inputs, 2) ** 2)
        else:
            wanted = math.ceil(self.oversampling * inputs)
        return max(min(wanted, _MOST_ENTRIES // inputs), 2 * inputs)

    def prepare(self, gram: Gram, *, added: float | Vector, iteration: int) -> Triangle:
        """Sketch and factor; a sketch without full rank is repaired by visible damping."""
        rows = self.rows(gram.size)
        fresh_seed = (self.seed + 1_000_003 * (iteration + 1)) % 2**64
        sketched = gram.sketch(SKETCHES[self.sketch](rows, seed=fresh_seed))
        repair = 0.0
        factor = _triangle(sketched, added)
        diagonal = np.abs(np.diagonal(factor))
        if not diagonal.min() > math.sqrt(gram.size * EPS) * diagonal.max():
            repair = _REPAIR * (float(gram.diagonal().mean()) or 1.0)
            factor = _triangle(sketched, added + repair)
        return Triangle(factor, rows, added + repair, repair > 0)


def _triangle(sketched: NDArray[np.float64], added: float | Vector) -> NDArray[np.float64]:
    if np.any(added):
        sketched = np.vstack([sketched, np.sqrt(added) * np.eye(sketched.shape[1])])
    triangle: NDArray[np.float64] = linalg.qr(sketched, mode="r", overwrite_a=True, check_finite=False)[0]
    return triangle[: sketched.shape[1]]


@dataclass(frozen=True)
class Sketched(Solver):
    """The paper's iteration: gradient descent on ||M z - Rᵀ r||² with M = Rᵀ G R, then g = R z.

    Parameters
    ----------
    tol : stop when ||(G + added) g - r|| <= tol ||r||; None for the paper's sqrt(lambda / n) / 6, at most 1/6, with
        lambda estimated from the factor
    preconditioner : where R comes from
    max_iterations : inner iterations at the most

    Deviation: the step length is found by an exact line search. The paper's length 1 needs singular values of M in
    [3/4, 5/4]; there the two agree closely, and elsewhere length 1 may diverge.
    Deviation: the stop is relative and the result is R z, not z.

    Cost: one sketch, O(s n²), and two products with G for each inner iteration.
    """

    tol: float | None = None
    preconditioner: SketchQR = field(default_factory=SketchQR)
    max_iterations: int = 1000

    def prepare(self, gram: Gram, *, added: float | Vector = 0.0, iteration: int = 0) -> Factor:
        """Sketch and factor; a fresh sketch for each iteration."""
        triangle = self.preconditioner.prepare(gram, added=added, iteration=iteration)
        tol = self.tol
        if tol is None:
            paper = math.sqrt(triangle.smallest_eigenvalue() / gram.size) / 6
            tol = min(max(paper, _FINEST), 1 / 6)
        return _SketchedFactor(System(gram, triangle.added), triangle, tol, self.max_iterations)


class _SketchedFactor(NamedTuple):
    system: System
    triangle: Triangle
    tol: float
    most: int

    def solve(self, rhs: Vector) -> Solution:
        """Return the solution for right-hand side (n,)."""
        system, triangle = self.system, self.triangle
        gauge = partial(triangle.solve, transposed=True)
        search = Search(system, rhs, self.tol, gauge=gauge)
        while search.goes_on(self.most):
            # z <- z - length * Mᵀ(M z - Rᵀ r), carried as g = R z and the residual r - G g.
            descent = triangle.solve(system.times(triangle(search.residual)), transposed=True)
            direction = triangle.solve(descent)
            change = system.times(direction)
            steep = triangle.solve(change, transposed=True)
            search.step(direction, change, ratio(float(descent @ descent), float(steep @ steep)))
        return search.solution(repaired=triangle.repaired)._replace(sketch_rows=triangle.rows)


def paper_solver(asked: str | Solver) -> Sketched | None:
    """Return the paper's solver, with its parameters unless one was given; None where another solver is asked for."""
    if isinstance(asked, Sketched):
        return asked
    return Sketched(preconditioner=SketchQR(oversampling=None)) if asked in ("sketched", "auto") else None
