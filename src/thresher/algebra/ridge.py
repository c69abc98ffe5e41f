"""Ridge regression on a dense kernel: coefficients, and what leaving out needs of the inverse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ssymv, strmm
from scipy.linalg.lapack import dpotrf, dpotrs, slauum, strtri

from thresher.algebra.cholesky import factor
from thresher.parallel import blas_for_size

__all__ = ["Inverse", "invert"]

Matrix = NDArray[np.float64]
_SMALLEST = 64  # rows of a triangle that LAPACK inverts fast enough
_STRIP = 512  # rows of which a block is mirrored at a time
_LARGE = 1500  # rows of a kernel whose one half is lent to the factor: new memory takes longer than to make it again


class Inverse(NamedTuple):
    """What leaving out needs of A⁻¹, with A = H + p."""

    alpha: Matrix  # A⁻¹ y (n, k)
    diagonal: Matrix  # of A⁻¹, at the last rows (s,)
    changes: tuple[Matrix, Matrix] | None  # by how much both fall as log p grows; None if only part of A⁻¹ was made


def invert(kernel: Matrix, penalty: Matrix, targets: Matrix, *, last: int, whole: bool) -> Inverse | None:
    """Return what is needed of the inverse of kernel (n, n) + penalty (n,); None if that is not positive.

    Without ``whole`` only the ``last`` numbers of its diagonal are made, and one half of a large kernel is lent to the
    factor: it is what it was once this returns. Cost: O(n³).
    """
    if not whole:
        diagonal, borrowed = kernel.diagonal().copy(), len(kernel) >= _LARGE and kernel.flags.carray
        try:
            made = factor(kernel, added=penalty, overwrite=borrowed)
            return None if made is None else Inverse(made.solve(targets), made.inverse_diagonal(last), None)
        finally:
            if borrowed:
                _mirror(kernel, diagonal)
    matrix = kernel.T.copy(order="F")  # symmetric; the transpose is in LAPACK's order
    np.einsum("ii->i", matrix)[:] += penalty
    with blas_for_size(len(kernel)):
        lower, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)  # cleaning takes as long as factoring
        if failed or not np.isfinite(lower.diagonal()).all():
            return None
        alpha = dpotrs(lower, targets, lower=1)[0]
        change = dpotrs(lower, penalty[:, None] * alpha, lower=1)[0]
        inverse, unit = _invert_factor(lower)
        fall = ssymv(1.0, inverse**2, penalty / unit, lower=1).astype(np.float64)
        diagonal = inverse.diagonal().astype(np.float64)
        return Inverse(np.ascontiguousarray(alpha), diagonal / unit, (change, fall / unit))


def _mirror(matrix: Matrix, diagonal: Matrix) -> None:
    """Make what is above the diagonal of a matrix (n, n) what is below it, and give it its diagonal back."""
    for first in range(0, len(matrix), _SMALLEST):
        last = first + _SMALLEST
        for row in range(last, len(matrix), _STRIP):  # copied first: rows of 2^k numbers would fight for the same cache
            matrix[first:last, row : row + _STRIP] = matrix[row : row + _STRIP, first:last].copy().T
        corner = np.tril(matrix[first:last, first:last], -1)
        matrix[first:last, first:last] = corner + corner.T
    np.einsum("ii->i", matrix)[:] = diagonal


def _invert_factor(lower: Matrix) -> tuple[NDArray[np.float32], float]:
    """Return the inverse of a matrix from its Cholesky factor (n, n), in the lower triangle, float32.

    It is that of the matrix divided by a unit, which is the second result, so that nothing is out of range. Of an exact
    factor it has six digits, whatever the condition of the matrix, and takes less time. Cost: O(n³).
    """
    size = float(lower.diagonal().max())
    single = (lower / size).astype(np.float32)
    _invert_triangle(single)
    return slauum(single, lower=1, overwrite_c=1)[0], size**2


def _invert_triangle(lower: NDArray[np.float32]) -> None:
    """Replace a lower triangle (n, n) by its inverse; by halves, which takes less time than LAPACK's way."""
    middle = len(lower) // 32 * 16
    if len(lower) <= _SMALLEST:
        lower[:] = strtri(lower, lower=1)[0]
        return
    first, below, last = lower[:middle, :middle], lower[middle:, :middle], lower[middle:, middle:]
    _invert_triangle(first)
    _invert_triangle(last)
    below[:] = strmm(-1.0, first, strmm(1.0, last, below, lower=1), side=1, lower=1, overwrite_b=1)
