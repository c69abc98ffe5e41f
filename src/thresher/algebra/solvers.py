"""Solvers of (G + damping I) g = r: Cholesky, conjugate gradient, and the paper's sketch-preconditioned iteration.

None raises for a singular G and none returns NaN: the status of the solution says what was done instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.algebra.sketches import SKETCHES, Gaussian
from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.interfaces import Gram, Sketch, Solution, SolveStatus

__all__ = ["Cholesky", "ConjugateGradient", "Jacobi", "MatrixGram", "ReusedFactor", "SketchQR", "Sketched", "Triangle"]

Vector = NDArray[np.float64]
Apply = Callable[[Vector], Vector]
_EPS = float(np.finfo(np.float64).eps)
_FINEST = 1e-12  # relative residual below which only rounding is left
_SINGULAR = 1e-12  # eigenvalues below this share of the largest carry nothing
_REPAIR = 1e-8  # damping added to a singular system, relative to the mean diagonal
_MOST_ENTRIES = 1 << 25  # of S Jᵀ: 256 MiB


@dataclass(frozen=True)
class MatrixGram:
    """A Gram operator from a matrix (n, n) alone: of the limit kernel, say. It cannot be sketched."""

    matrix: NDArray[np.float64]

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return len(self.matrix)

    def dense(self) -> NDArray[np.float64]:
        """Return the matrix."""
        return self.matrix

    def times(self, vector: Vector) -> Vector:
        """Return matrix @ vector."""
        return self.matrix @ vector

    def diagonal(self) -> Vector:
        """Return the diagonal."""
        return self.matrix.diagonal().copy()

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Refuse: there is no Jacobian behind this matrix."""
        raise InvalidInput("a matrix without its Jacobian cannot be sketched. Use Cholesky or ConjugateGradient().")


@dataclass(frozen=True)
class Cholesky:
    """Factor the dense matrix. A matrix that is singular to rounding is cut to the directions that carry something.

    Cost: O(n³), about ten times that when the matrix has to be cut.
    """

    def solve(self, gram: Gram, rhs: Vector, *, damping: float = 0.0, iteration: int = 0) -> Solution:
        """Return the solution for right-hand side (n,)."""
        return _factor_and_solve(gram, rhs, damping)[0]


def _factor_and_solve(gram: Gram, rhs: Vector, damping: float) -> tuple[Solution, NDArray[np.float64] | None]:
    """Return the solution and the lower factor; none if the matrix is singular and had to be cut."""
    added = _absolute(gram, damping)
    matrix = np.array(gram.dense())
    matrix.flat[:: gram.size + 1] += added
    factor, failed = linalg.lapack.dpotrf(matrix.T, lower=1)  # symmetric; the transpose is in LAPACK's order
    norm = float(np.abs(matrix).sum(axis=0).max())
    if not failed and linalg.lapack.dpocon(factor, norm, uplo="L")[0] > _SINGULAR:
        value = linalg.lapack.dpotrs(factor, rhs, lower=1)[0]
        solved = _solution(value, SolveStatus.SOLVED, rhs - matrix @ value, rhs, added, gram.size)
        return solved._replace(factored=True), factor
    values, vectors = linalg.eigh(matrix)
    kept = values > _SINGULAR * max(values[-1], 0.0)
    status = SolveStatus.SOLVED if kept.all() else SolveStatus.TRUNCATED
    value = vectors[:, kept] @ ((vectors[:, kept].T @ rhs) / values[kept])
    cut = _solution(value, status, rhs - matrix @ value, rhs, added, int(kept.sum()))
    return cut._replace(factored=True), None


@dataclass
class ReusedFactor:
    """Cholesky that keeps its factor: the Gram matrix changes slowly, so an old factor is a good preconditioner.

    A few conjugate-gradient steps replace a factorisation; when they do not reach ``tol`` within ``patience`` steps
    the matrix is factored anew. ``Solution.factored`` says which it was.

    Parameters
    ----------
    tol : stop when ||G g - r|| <= tol ||r||
    patience : conjugate-gradient steps after which a new factor is cheaper

    Cost: O(n²) for each inner iteration, O(n³) when it factors.
    """

    tol: float = 1e-9
    patience: int = 25
    factor: NDArray[np.float64] | None = field(default=None, repr=False)

    def solve(self, gram: Gram, rhs: Vector, *, damping: float = 0.0, iteration: int = 0) -> Solution:
        """Return the solution for right-hand side (n,)."""
        spent = 0
        if self.factor is not None and len(self.factor) == gram.size:
            gram.dense()  # makes the matrix: then a product costs n², less than by pairs
            stale = _Stale(self.factor)
            reused = ConjugateGradient(self.tol, stale, max_iterations=self.patience)
            solution = reused.solve(gram, rhs, damping=damping, iteration=iteration)
            if solution.status is SolveStatus.SOLVED:
                return solution
            spent = solution.inner_iterations
        solution, self.factor = _factor_and_solve(gram, rhs, damping)
        return solution._replace(inner_iterations=spent)


@dataclass(frozen=True)
class _Stale:
    factor: NDArray[np.float64]

    def prepare(self, gram: Gram, *, damping: float, iteration: int) -> Apply:
        return lambda vector: linalg.lapack.dpotrs(self.factor, vector, lower=1)[0]


class Preconditioner(Protocol):
    """Makes a cheap approximate inverse of G + damping I."""

    def prepare(self, gram: Gram, *, damping: float, iteration: int) -> Apply:
        """Return a function that applies the approximate inverse to a vector (n,)."""


@dataclass(frozen=True)
class Jacobi:
    """Divide by the diagonal; where it is zero nothing can be reached, and the answer is zero. Cost: O(n)."""

    def prepare(self, gram: Gram, *, damping: float, iteration: int) -> Apply:
        """Return division by the diagonal."""
        diagonal = gram.diagonal() + damping
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        return lambda vector: vector * inverse


@dataclass(frozen=True)
class Triangle:
    """An upper triangle T with Tᵀ T close to G + damping I; the paper's R is its inverse."""

    factor: NDArray[np.float64]
    rows: int  # of the sketch it was made from
    damping: float  # that was added in all, absolute
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

    def prepare(self, gram: Gram, *, damping: float, iteration: int) -> Triangle:
        """Sketch and factor; a sketch without full rank is repaired by visible damping."""
        rows = self.rows(gram.size)
        fresh_seed = (self.seed + 1_000_003 * (iteration + 1)) % 2**64
        sketched = gram.sketch(SKETCHES[self.sketch](rows, seed=fresh_seed))
        repair = 0.0
        factor = _triangle(sketched, damping)
        diagonal = np.abs(np.diagonal(factor))
        if not diagonal.min() > math.sqrt(gram.size * _EPS) * diagonal.max():
            repair = _REPAIR * (float(gram.diagonal().mean()) or 1.0)
            factor = _triangle(sketched, damping + repair)
        return Triangle(factor, rows, damping + repair, repair > 0)


def _triangle(sketched: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
    if damping > 0:
        sketched = np.vstack([sketched, math.sqrt(damping) * np.eye(sketched.shape[1])])
    triangle: NDArray[np.float64] = linalg.qr(sketched, mode="r", overwrite_a=True, check_finite=False)[0]
    return triangle[: sketched.shape[1]]


@dataclass(frozen=True)
class Sketched:
    """The paper's iteration: gradient descent on ||M z - Rᵀ r||² with M = Rᵀ G R, then g = R z.

    Parameters
    ----------
    tol : stop when ||G g - r|| <= tol ||r||; None for the paper's sqrt(lambda / n) / 6, at most 1/6, with lambda
        estimated from the factor
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

    def solve(self, gram: Gram, rhs: Vector, *, damping: float = 0.0, iteration: int = 0) -> Solution:
        """Return the solution for right-hand side (n,)."""
        triangle = self.preconditioner.prepare(gram, damping=_absolute(gram, damping), iteration=iteration)
        system = _System(gram, rhs, triangle.damping)
        paper = math.sqrt(triangle.smallest_eigenvalue() / gram.size) / 6
        tol = min(max(paper, _FINEST), 1 / 6) if self.tol is None else self.tol
        search = _Search(system, tol, gauge=lambda residual: triangle.solve(residual, transposed=True))
        while search.goes_on(self.max_iterations):
            # z <- z - length * Mᵀ(M z - Rᵀ r), carried as g = R z and the residual r - G g.
            descent = triangle.solve(system.times(triangle(search.residual)), transposed=True)
            direction = triangle.solve(descent)
            change = system.times(direction)
            steep = triangle.solve(change, transposed=True)
            search.step(direction, change, _ratio(float(descent @ descent), float(steep @ steep)))
        return search.solution(repaired=triangle.repaired)._replace(sketch_rows=triangle.rows)


@dataclass(frozen=True)
class ConjugateGradient:
    """Preconditioned conjugate gradient; on a singular system the best iterate, said to be inexact.

    Parameters
    ----------
    tol : stop when ||G g - r|| <= tol ||r||
    preconditioner : anything with ``prepare``, e.g. ``Jacobi()`` or ``SketchQR()``
    max_iterations : inner iterations at the most, None for 10 n + 100

    Cost: one product with G for each inner iteration.
    """

    tol: float = 1e-10
    preconditioner: Preconditioner = field(default_factory=Jacobi)
    max_iterations: int | None = None

    def solve(self, gram: Gram, rhs: Vector, *, damping: float = 0.0, iteration: int = 0) -> Solution:
        """Return the solution for right-hand side (n,)."""
        added = _absolute(gram, damping)
        apply = self.preconditioner.prepare(gram, damping=added, iteration=iteration)
        repaired = getattr(apply, "repaired", False)  # a singular matrix: solve what the preconditioner was made for
        system = _System(gram, rhs, getattr(apply, "damping", added))
        search = _Search(system, self.tol)
        most = 10 * gram.size + 100 if self.max_iterations is None else self.max_iterations
        direction, energy = np.zeros_like(rhs), 0.0
        while search.goes_on(most):
            steepest = apply(search.residual)
            previous, energy = energy, float(search.residual @ steepest)
            direction = steepest + _ratio(energy, 0.0 if search.restarted else previous) * direction
            change = system.times(direction)
            curvature = float(direction @ change)
            rounding = gram.size * _EPS * _norm(direction) * _norm(change)
            search.step(direction, change, _ratio(energy, curvature) if curvature > rounding else 0.0)
        return search.solution(repaired=repaired)._replace(sketch_rows=getattr(apply, "rows", 0))


class _System(NamedTuple):
    gram: Gram
    rhs: Vector
    damping: float

    def times(self, vector: Vector) -> Vector:
        return self.gram.times(vector) + self.damping * vector


class _Search:
    """An iterate with its residual, the best seen so far, and the decision to go on.

    Works on the right-hand side divided by its norm, so that no scale overflows. Progress is read off a ``gauge`` of
    the residual: the one that the iteration decreases.
    """

    PATIENCE = 500  # inner iterations without a per cent of progress

    def __init__(self, system: _System, tol: float, *, gauge: Callable[[Vector], Vector] = np.asarray) -> None:
        self._unit = math.ldexp(1.0, math.frexp(_norm(system.rhs))[1])  # a power of two: dividing by it is exact
        self._system = system._replace(rhs=system.rhs / self._unit)
        self._size = _norm(self._system.rhs)
        self._goal, self._gauge = tol * self._size, gauge
        self._value = np.zeros_like(system.rhs)
        self.residual = self._system.rhs.copy()
        self._best = (math.inf, self._value)  # smallest gauge, and the iterate that had it
        self._mark = (math.inf, 0)  # the gauge when it last fell by a per cent, and when that was
        self._iterations = 0
        self._done = False
        self.restarted = True

    def step(self, direction: Vector, change: Vector, length: float) -> None:
        if not math.isfinite(length) or length <= 0:  # no curvature left: what remains is rounding, or out of reach
            self._done = True
            return
        self._value = self._value + length * direction
        self.residual = self.residual - length * change
        self._iterations += 1
        self.restarted = False

    def goes_on(self, most: int) -> bool:
        if self._done:
            return False
        if _norm(self.residual) <= self._goal:  # the recurrence says so: make sure
            self.residual = self._system.rhs - self._system.times(self._value)
            self.restarted = True
            if _norm(self.residual) <= self._goal:
                self._best = (0.0, self._value)
                return False
        size = _norm(self._gauge(self.residual))
        if size < 0.99 * self._mark[0]:
            self._mark = (size, self._iterations)
        if size < self._best[0]:
            self._best = (size, self._value)
        return self._iterations < most and self._iterations - self._mark[1] < self.PATIENCE

    def solution(self, *, repaired: bool) -> Solution:
        system, value = self._system, self._best[1]
        residual = system.rhs - system.times(value)
        if not _norm(residual) <= self._size:  # worse than no step at all
            value, residual = np.zeros_like(value), system.rhs
        reached = _norm(residual) <= self._goal
        status = (SolveStatus.DAMPED if repaired else SolveStatus.SOLVED) if reached else SolveStatus.INEXACT
        solution = _solution(self._unit * value, status, residual, system.rhs, system.damping, len(value))
        return solution._replace(inner_iterations=self._iterations)


def _solution(value: Vector, status: SolveStatus, residual: Vector, rhs: Vector, damping: float, rank: int) -> Solution:
    if not np.isfinite(value).all():  # only from right-hand sides near overflow
        value, residual, status = np.zeros_like(rhs), rhs, SolveStatus.INEXACT
    size = _norm(rhs)
    return Solution(value, status, 0, _norm(residual) / size if size > 0 else 0.0, damping, rank)


def _norm(vector: Vector) -> float:
    """Return the length of a vector; no overflow, and infinity for what is not a number."""
    largest = float(np.abs(vector).max(initial=0.0))
    if not math.isfinite(largest):
        return math.inf
    return largest * float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0


def _absolute(gram: Gram, damping: float) -> float:
    return damping * float(gram.diagonal().mean()) if damping else 0.0


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0
