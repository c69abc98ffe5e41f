"""Kernels of few inputs as matrices in the memory of the processor, in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpotrf, dpotrs

from thresher.algebra import DirectFactor, MatrixGram
from thresher.algebra.cholesky import factor
from thresher.algebra.ridge import Evidence, Inverse, invert, invert_factor
from thresher.estimators.kernels.gradients import sum_outer_products
from thresher.loops.limit import multiply_symmetric
from thresher.parallel import blas_for_size, core_count, in_order
from thresher.theory import Limit, Parts, limit_kernel, limit_slopes
from thresher.theory.limit_matrix import limit_cross

__all__ = ["ArrayKernel", "ArrayLimit"]

Matrix = NDArray[np.float64]
_MOST_WORK = 10**9  # multiplications in one call
_STRIP = 128  # rows of a kernel of parts that a thread fills at a time


class ArrayKernel:
    """A kernel (n, n); see :class:`~thresher.estimators.interfaces.DenseOperator`."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix

    def __len__(self) -> int:
        """Return n."""
        return len(self._matrix)

    def dense(self) -> Matrix:
        """Return the matrix itself."""
        return self._matrix

    def last(self, size: int) -> ArrayKernel:
        """Return the kernel of the last inputs, as a view."""
        return ArrayKernel(self._matrix[-size:, -size:])

    def solve(self, penalty: Matrix, targets: Matrix) -> Matrix | None:
        """Return (H + penalty)⁻¹ targets. Cost: O(n³/3)."""
        made = factor(self._matrix[: len(penalty), : len(penalty)], added=penalty)
        return None if made is None else made.solve(targets)

    def invert(self, penalty: Matrix, targets: Matrix, *, last: int, whole: bool) -> Inverse | None:
        """Return what leaving out needs of (H + penalty)⁻¹. Cost: O(n³)."""
        return invert(self._matrix, penalty, targets, last=last, whole=whole)

    def near(self, penalty: Matrix) -> DirectFactor:
        """Return the kernel with a penalty as a preconditioner, factored when that is first needed. Cost: O(n³/3)."""
        return DirectFactor(MatrixGram(self._matrix), penalty)

    def rest(self, alpha: Matrix) -> Matrix:
        """Return the rows beyond those of alpha times alpha. Cost: O(n²) per column."""
        return self._matrix[len(alpha) :, : len(alpha)] @ alpha


class ArrayLimit(ArrayKernel):
    """The limit kernel of inputs (n, d); for gradients their inner products and the slopes (n, n) are kept.

    There are none of a kernel of parts: metrics are learnt with that of all columns.
    """

    def __init__(self, inputs: Matrix, kernel: Limit, *, gradients: bool) -> None:
        assert not (gradients and kernel.parts), "gradients are those of the kernel of all columns"
        vectors = inputs if kernel.parts is None else inputs[:, : -kernel.parts.columns]
        products, slopes = _products_of(vectors), None
        if gradients:
            matrix, slopes = limit_slopes(products, kernel.shift)
        else:
            matrix = limit_kernel(products, kernel.shift, overwrite=True)
        if kernel.parts is not None:
            _add_parts(matrix, inputs, kernel.parts, kernel.diagonal)
        super().__init__(matrix)
        self._inputs, self._kernel, self._products, self._slopes = inputs, kernel, products, slopes

    def outer_products(self, alpha: Matrix, *, scale: Matrix, columns: int) -> Matrix:
        """Return sums of outer products of gradients; see :func:`sum_outer_products`."""
        assert self._slopes is not None
        return sum_outer_products(
            self._inputs, alpha, products=self._products, slopes=self._slopes, scale=scale, columns=columns
        )

    def evidence(self, penalty: Matrix, targets: Matrix) -> Evidence | None:
        """Return what the likelihood needs; what is for slopes only is in single precision. Cost: O(n³ + n²d)."""
        products, slopes, inputs = self._products, self._slopes, self._inputs
        assert slopes is not None
        matrix = self._matrix.T.copy(order="F")  # symmetric; the transpose is in LAPACK's order
        np.einsum("ii->i", matrix)[:] += penalty
        with blas_for_size(len(inputs)):
            lower, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
            if failed:
                return None
            alpha = dpotrs(lower, targets, lower=1)[0]
            inverse, unit = invert_factor(lower)

        def pull(columns: Matrix, times: float) -> Matrix:
            with blas_for_size(len(inputs)):
                by_product, sums = slopes.copy(), np.zeros(len(inputs))
                multiply_symmetric(inverse.T, 1 / unit, columns @ columns.T.copy(), products, by_product, sums)
                turned = dsymm(times, by_product.T, inputs, lower=1) - times * sums[:, None] * inputs
                return np.asarray((inputs * turned).sum(axis=0))

        half = float(np.log(np.diag(lower)).sum())
        return Evidence(alpha, half, inverse.diagonal() / unit, pull)

    def explained(self, penalty: Matrix) -> Callable[[Matrix], Matrix] | None:
        """Return what tells how much of a variance is known. Cost: O(n³/3), then O(n²) for each input."""
        made = factor(self._matrix, added=penalty)
        if made is None:
            return None

        def known(others: Matrix) -> Matrix:
            cross = limit_cross(others, self._inputs, self._kernel.shift, parts=self._kernel.parts)
            return np.asarray((made.half_solve(cross.T) ** 2).sum(axis=0))

        return known


def _add_parts(matrix: Matrix, inputs: Matrix, parts: Parts, diagonal: float) -> None:
    """Turn the kernel of all columns (n, n) into that of parts. Cost: O(n²u/2) for u columns."""
    angles = parts.split(inputs)[1]
    across = np.ascontiguousarray(angles.T)

    def fill(first: int) -> None:
        last = min(first + _STRIP, len(matrix))
        strip = matrix[first:last, :last].copy()
        parts.add(strip, angles[first:last], np.ascontiguousarray(across[:, :last]), diagonal)
        matrix[first:last, :last] = strip
        matrix[:first, first:last] = strip[:, :first].T  # which no other strip reads

    list(in_order(fill, range(0, len(matrix), _STRIP), threads=core_count()))


def _products_of(inputs: Matrix) -> Matrix:
    """Return the inner products (n, n) of inputs (n, d). Cost: O(n²d)."""
    products = np.empty((len(inputs), len(inputs)))
    columns = np.ascontiguousarray(inputs.T)  # of a product with itself NumPy copies a triangle, which takes longer
    rows = max(1, _MOST_WORK // inputs.size)
    for first in range(0, len(inputs), rows):  # an interrupt takes effect between two of these
        np.matmul(inputs[first : first + rows], columns, out=products[first : first + rows])
    return products
