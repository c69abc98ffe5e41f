"""How much the limit knows at a row: the variance of its Gaussian process, from all rows or from some pivots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.estimators.interfaces import Backend
from thresher.estimators.processor import Cpu
from thresher.theory import Limit

__all__ = ["Variance"]

Matrix = NDArray[np.float64]
_LIFT = 1e-5  # added to the diagonal of the pivots' kernel, relative to it: in single precision
_BLOCK = 4096  # rows at a time


class Variance(NamedTuple):
    """The variance of the process given targets with a penalty at some inputs.

    With all inputs (n, d) as pivots and no ``core`` it is exact. With fewer pivots the process is known through their
    span alone: ``core`` (r, r) is the triangle of 1 + F P⁻¹ Fᵀ, where F (r, n) = L⁻¹ K are the coordinates of all rows
    and P is the penalty; what the span does not reach is unknown.
    """

    pivots: NDArray[Any]  # (r, d)
    known: Callable[[Matrix], Matrix] | None  # exact: see DenseLimit.explained
    triangle: Matrix | None  # of the kernel of the pivots
    core: Matrix | None
    kernel: Limit
    backend: Backend

    @classmethod
    def exact(cls, inputs: Matrix, penalty: Matrix, kernel: Limit, backend: Backend) -> Variance | None:
        """Return the variance from all inputs (n, d) with penalties (n,); None if that is singular. Cost: O(n³/3)."""
        known = backend.dense(kernel, inputs).explained(penalty)
        return None if known is None else cls(inputs, known, None, None, kernel, backend)

    @classmethod
    def of_pivots(
        cls, pivots: NDArray[Any], kernel: Limit, core: Matrix | None = None, *, backend: Backend | None = None
    ) -> Variance:
        """Return the variance from pivots (r, d); :meth:`with_rows` adds what is known. Cost: O(r³)."""
        few = np.ascontiguousarray(pivots, np.float32)
        unit = few.astype(np.float64)  # products of single precision would miss those of near-equal rows
        vectors = unit[:, : unit.shape[1] - (0 if kernel.parts is None else kernel.parts.columns)]
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        matrix = Cpu().dense(kernel, unit).dense()
        matrix[np.diag_indices_from(matrix)] = kernel.diagonal * (1 + _LIFT)
        triangle = linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        return cls(few, None, triangle, core, kernel, Cpu() if backend is None else backend)

    def with_rows(self, inputs: NDArray[Any], penalty: Matrix) -> Variance:
        """Return the variance given targets at inputs (n, d) with penalties (n,) as well. Cost: O(nr²)."""
        backend = self.backend
        core = backend.put(np.eye(len(self.pivots)) if self.core is None else self.core @ self.core.T)
        for first in range(0, len(inputs), _BLOCK):
            rows = slice(first, first + _BLOCK)
            some = self._coordinates(inputs[rows]) / backend.put(np.sqrt(penalty[rows]))
            core += some @ some.T
        found = linalg.cholesky(backend.get(core), lower=True, overwrite_a=True, check_finite=False)
        return self._replace(core=found)

    def at(self, inputs: NDArray[Any]) -> Matrix:
        """Return the variance at inputs (k, d), (k,). Cost: O(n²) or O(r²) per row."""
        found = [self._at(inputs[first : first + _BLOCK]) for first in range(0, len(inputs), _BLOCK)]
        return np.maximum(np.concatenate([np.zeros(0), *found]), 0.0)

    def _at(self, inputs: NDArray[Any]) -> Matrix:
        prior = self.kernel.diagonal
        if self.known is not None:
            return prior - self.known(inputs)
        assert self.core is not None
        coordinates = self._coordinates(inputs)
        known = self.backend.divide(self.core, coordinates)
        return self.backend.get(prior - (coordinates**2).sum(axis=0) + (known**2).sum(axis=0))

    def explained(self, covariances: Matrix) -> Matrix:
        """Return how much (k,) of the variances of linear functionals of the process is known through pivots.

        ``covariances`` (k, r) are those with the process at each pivot. Cost: O(r²) per functional.
        """
        assert self.triangle is not None and self.core is not None
        coordinates = self.backend.divide(self.triangle, self.backend.put(covariances.T))
        known = self.backend.divide(self.core, coordinates)
        return self.backend.get((coordinates**2).sum(axis=0) - (known**2).sum(axis=0))

    def _coordinates(self, inputs: NDArray[Any]) -> Any:
        assert self.triangle is not None
        pivots, rows = (self.backend.put(np.ascontiguousarray(one, np.float32)) for one in (self.pivots, inputs))
        return self.backend.divide(self.triangle, self.backend.block(self.kernel, pivots, rows))
