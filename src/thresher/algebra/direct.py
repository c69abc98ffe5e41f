"""Solvers that factor the dense matrix: for one iteration, or for as many as an old factor is good for."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.algebra.cg import ConjugateFactor
from thresher.algebra.cholesky import LowerFactor, factor
from thresher.algebra.gram import MatrixGram
from thresher.algebra.system import SINGULAR, Apply, System, Vector
from thresher.interfaces import Factor, Gram, Solution, Solver, SolveStatus

__all__ = ["Cholesky", "Direct", "DirectFactor", "ReusedFactor"]

_ROWS = 256  # whose sums are taken at a time


class Direct(Solver):
    """A solver that factors the matrix, whatever its size."""

    def needs_matrix(self, inputs: int) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class Cholesky(Direct):
    """Factor the dense matrix. A matrix that is singular to rounding is cut to the directions that carry something.

    Cost: O(n³), about ten times that when the matrix has to be cut; O(n²) for each right-hand side.
    """

    def prepare(self, gram: Gram, *, added: float | Vector = 0.0, iteration: int = 0) -> DirectFactor:
        """Take the matrix, which is factored when that is first needed."""
        return DirectFactor(gram, added)


class _Directions(NamedTuple):
    """Eigenvalues (n,), ascending, and eigenvectors (n, n) of a matrix, and which of them carry something."""

    values: Vector
    vectors: Vector
    kept: NDArray[np.bool_]


class DirectFactor:
    """A dense matrix (n, n) with something added to its diagonal. It is factored once, by the thread that asks first.

    It is a preconditioner too, for matrices that are near.
    """

    def __init__(self, gram: Gram, added: float | Vector) -> None:
        self._system, self._lock = System(MatrixGram(gram.dense()), added), threading.Lock()
        self._made: LowerFactor | _Directions | None = None

    @property
    def lower(self) -> LowerFactor | None:
        """The Cholesky factor; None if the matrix is singular to rounding. Cost: O(n³) when first asked for."""
        made = self._factor()
        return made if isinstance(made, LowerFactor) else None

    def solve(self, rhs: Vector) -> Solution:
        """Return the solution for right-hand side (n,). Cost: O(n²)."""
        made, system = self._factor(), self._system
        if isinstance(made, LowerFactor):
            value, status, rank = made.solve(rhs), SolveStatus.SOLVED, len(rhs)
        else:
            vectors, rank = made.vectors[:, made.kept], int(made.kept.sum())
            value = vectors @ ((vectors.T @ rhs) / made.values[made.kept])
            status = SolveStatus.SOLVED if rank == len(rhs) else SolveStatus.TRUNCATED
        return system.solution(value, status, rhs, rhs - system.times(value))._replace(rank=rank, factored=True)

    def prepare(self, gram: Gram, *, added: float | Vector, iteration: int) -> Apply:
        """Return the product with the inverse of this matrix, whatever G is; what is singular is held above zero."""
        return self._apply

    def _apply(self, vector: Vector) -> Vector:
        made = self._factor()
        if isinstance(made, LowerFactor):
            return made.solve(vector)
        values = np.maximum(made.values, SINGULAR * made.values[-1])
        held = np.where(values > 0, values, 1.0)
        return np.asarray(made.vectors @ ((made.vectors.T @ vector) / held))

    def _factor(self) -> LowerFactor | _Directions:
        with self._lock:
            if self._made is None:
                self._made = _lower(self._system) or _directions(self._system)
            return self._made


def _lower(system: System) -> LowerFactor | None:
    """Return the Cholesky factor; None if the matrix is singular to rounding."""
    matrix = system.gram.dense()
    made = factor(matrix, added=system.added)
    if made is None:
        return None
    rows = range(0, len(matrix), _ROWS)
    sums = np.concatenate([np.abs(matrix[first : first + _ROWS]).sum(axis=1) for first in rows]) + system.added
    share = linalg.lapack.dpocon(made.lower, float(sums.max()), uplo="L")[0]
    return made if share > SINGULAR else None


def _directions(system: System) -> _Directions:
    matrix = np.array(system.gram.dense())
    matrix.flat[:: len(matrix) + 1] += system.added
    values, vectors = linalg.eigh(matrix, overwrite_a=True)
    return _Directions(values, vectors, values > SINGULAR * max(values[-1], 0.0))


@dataclass
class ReusedFactor(Direct):
    """Cholesky that keeps its factor: the Gram matrix changes slowly, so an old factor is a good preconditioner.

    A few conjugate-gradient steps replace a factorisation; when they do not reach ``tol`` within ``patience`` steps
    the matrix is factored anew. ``Solution.factored`` says which it was.

    Parameters
    ----------
    tol : stop when ||(G + added) g - r|| <= tol ||r||
    patience : conjugate-gradient steps after which a new factor is cheaper
    factor : of a matrix that is near; None to begin with

    Cost: O(n²) for each inner iteration, O(n³) when it factors.
    """

    tol: float = 1e-9
    patience: int = 25
    factor: LowerFactor | None = field(default=None, repr=False)

    def prepare(self, gram: Gram, *, added: float | Vector = 0.0, iteration: int = 0) -> Factor:
        """Take the matrix, which is factored if the old factor turns out to be too far from it."""
        return _ReusedFactor(self, gram, added)

    def fresh(self) -> ReusedFactor:
        """Return one that has no factor yet."""
        return replace(self, factor=None)

    def learn(self, gram: Gram, *, added: float | Vector, factor: Factor | None) -> None:
        """Keep the factor of this matrix."""
        self.factor = (factor if isinstance(factor, DirectFactor) else DirectFactor(gram, added)).lower


class _ReusedFactor:
    def __init__(self, solver: ReusedFactor, gram: Gram, added: float | Vector) -> None:
        dense = MatrixGram(gram.dense())  # with which a product costs n², less than by pairs
        self._solver, self._new = solver, DirectFactor(dense, added)
        self._old: ConjugateFactor | None = None
        if solver.factor is not None and len(solver.factor.lower) == gram.size:
            system, apply = System(dense, added), solver.factor.solve
            self._old = ConjugateFactor(system, apply, tol=solver.tol, most=solver.patience)

    def solve(self, rhs: Vector) -> Solution:
        """Return the solution for right-hand side (n,)."""
        spent = 0
        if self._old is not None:
            solution = self._old.solve(rhs)
            if solution.status is SolveStatus.SOLVED:
                return solution
            spent = solution.inner_iterations
            self._old = self._solver.factor = None  # before there are two of them
        solution = self._new.solve(rhs)
        self._solver.factor = self._new.lower
        return solution._replace(inner_iterations=spent)
