"""A Cholesky factor made, and used, in short calls: Ctrl-C acts between any two of them, at any size.

A handler of signals runs between two calls only, and one LAPACK call for 16,000 rows takes a minute. So large matrices
are cut into blocks for which a call has no more than about 5e9 additions and multiplications. Blocks are dealt to
threads, each with BLAS on one thread: no thread waits for another in a loop, and results do not depend on their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.blas import (
    copy_triangle,
    divide_from_left,
    divide_from_right,
    divide_vector,
    factor_block,
    invert_block,
    subtract_product,
    subtract_square,
)
from thresher.errors import InvalidInput
from thresher.parallel import blas_for_size, core_count, in_order

__all__ = ["LowerFactor", "factor"]

Matrix = NDArray[np.float64]
Item = TypeVar("Item")
Value = TypeVar("Value")
_MOST = 5e9  # additions and multiplications in a call: a fraction of a second on one core
_WHOLE = 2000  # rows of a matrix that is factored, inverted and solved with in one call
_PANEL, _STRIP = 384, 512  # columns eliminated at a time, and rows below them that a task takes
_LARGEST = 768  # rows, and columns, of a block that is solved for at a time
_SMALLEST = 128  # rows of a triangle that LAPACK inverts fast enough


def factor(
    matrix: Matrix, *, added: float | Matrix = 0.0, overwrite: bool = False, threads: int | None = None
) -> LowerFactor | None:
    """Return the Cholesky factor of a symmetric matrix; None if it is not positive definite, or has a nan.

    Parameters
    ----------
    matrix : (n, n), both triangles; which one is read depends on the order in memory
    added : a number or (n,) numbers, added to the diagonal
    overwrite : make the factor in the place of the matrix, which is lost, if that is float64 in Fortran or C order
    threads : at the most; None for all cores

    Cost: O(n³/3); one copy of a triangle, unless it may be overwritten.
    """
    if matrix.ndim != 2 or not len(matrix) == matrix.shape[1] > 0:
        raise InvalidInput(f"a matrix to factor must have shape (n, n); got shape {matrix.shape}.")
    lower = _own(matrix, overwrite)
    diagonal = np.einsum("ii->i", lower)  # a view that can be written
    diagonal += added
    made = LowerFactor(lower, threads=core_count() if threads is None else threads)
    return made if made._eliminate() and np.isfinite(diagonal).all() else None


def _own(matrix: Matrix, overwrite: bool) -> Matrix:
    """Return the matrix in Fortran order, of which the lower triangle is as given: itself, its transpose, or a copy."""
    source = matrix if matrix.flags.f_contiguous else matrix.T  # the same numbers, symmetric as they are
    if overwrite and source.flags.f_contiguous and source.flags.behaved and source.dtype == np.float64:
        return source
    own = np.empty(matrix.shape, order="F")
    for first in range(0, len(own), _LARGEST):
        columns = slice(first, first + _LARGEST)
        own[first:, columns] = source[first:, columns]
    return own


class _Part(NamedTuple):
    """Some columns of what is solved for, from a row on to the last: (n - first, k)."""

    values: Matrix
    first: int


class LowerFactor:
    """A lower factor L (n, n) with L Lᵀ = the matrix; ``factor`` makes it. What is above its diagonal says nothing."""

    def __init__(self, lower: Matrix, *, threads: int) -> None:
        self.lower, self._threads = lower, threads
        fitting = math.isqrt(int(_MOST / (2 * len(lower))))  # a square of this size times one of n rows
        self._block = max(1, min(_LARGEST, fitting // 32 * 32 or fitting))

    def solve(self, rhs: Matrix) -> Matrix:
        """Return the inverse of the matrix times rhs (n,) or (n, k). Cost: O(n²k)."""
        return self._sweep(rhs, back=True)

    def half_solve(self, rhs: Matrix) -> Matrix:
        """Return L⁻¹ times rhs (n,) or (n, k). Cost: O(n²k/2)."""
        return self._sweep(rhs, back=False)

    def corner(self, rows: int) -> LowerFactor:
        """Return the factor of what the last ``rows`` of the matrix are, less what the others explain of them."""
        return LowerFactor(self.lower[-rows:, -rows:], threads=self._threads)

    def inverse_diagonal(self, last: int | None = None) -> Matrix:
        """Return the diagonal (n,) of the inverse of the matrix: the squared norms of the columns of L⁻¹.

        If only the ``last`` numbers of it are asked for, only these columns are made, in which all rows above are zero.

        Cost: O(n³/3), or O(last³/3). Memory: n²/4 numbers for up to 2000 of them, beyond that a block of columns for
        each thread.
        """
        n, size = len(self.lower), self._block
        if last is not None and last < n:
            return self.corner(last).inverse_diagonal()
        if n <= _WHOLE:
            with blas_for_size(n):
                return _column_squares(self.lower)
        firsts, together, squares = range(0, n, size), max(4, self._threads), np.empty(n)
        with blas_for_size(size):
            for some in (firsts[k : k + together] for k in range(0, len(firsts), together)):
                begun = self._deal(partial(self._begin_columns, squares), some)
                for row in range(some.start + size, n, size):
                    self._deal(partial(self._forward, size, row), [part for part in begun if part.first <= row])
                for first, part in zip(some, begun, strict=True):
                    squares[first : first + size] += np.einsum("ij,ij->j", part.values, part.values)
        return squares

    def _deal(self, task: Callable[[Item], Value], items: Sequence[Item]) -> list[Value]:
        if len(items) < 2:
            return list(map(task, items))
        return list(in_order(task, items, threads=min(self._threads, len(items))))

    def _eliminate(self) -> bool:
        """Make the factor of what is in its place; False if that is not positive definite."""
        n = len(self.lower)
        width = n if n <= _WHOLE else min(_PANEL, self._block)
        strip = max(1, min(_STRIP, int(_MOST / (2 * width * n))))
        with blas_for_size(width):
            for first in range(0, n, width):
                last = min(first + width, n)
                if not factor_block(self.lower[first:last, first:last]):
                    return False
                below = range(last, n, strip)
                self._deal(partial(self._divide, strip, first, last), below)
                # The longest strips come first, so that no thread is left alone with one.
                self._deal(partial(self._update, strip, first, last), below[::-1])
        return True

    def _divide(self, strip: int, first: int, last: int, row: int) -> None:
        divide_from_right(self.lower[row : row + strip, first:last], self.lower[first:last, first:last].T)

    def _update(self, strip: int, first: int, last: int, row: int) -> None:
        """Take from a strip of rows, up to the diagonal, what columns first:last explain of them."""
        rows = self.lower[row : row + strip]
        subtract_product(rows[:, last:row], rows[:, first:last], self.lower[last:row, first:last].T)
        subtract_square(rows[:, row : row + strip], rows[:, first:last])

    def _sweep(self, rhs: Matrix, *, back: bool) -> Matrix:
        """Return L⁻¹ rhs, or L⁻ᵀ L⁻¹ rhs: from the first rows to the last, and back."""
        n = len(self.lower)
        if rhs.ndim not in (1, 2) or len(rhs) != n:
            raise InvalidInput(f"a right-hand side must have shape ({n},) or ({n}, k); got shape {rhs.shape}.")
        value = np.empty((n, rhs.size // n), order="F")
        value[:] = rhs.reshape(value.shape)
        few = 0 < n * value.size <= _MOST
        with blas_for_size(min(n, _WHOLE)):
            if few and (n <= _WHOLE or value.shape[1] == 1):
                for triangle in (self.lower, self.lower.T) if back else (self.lower,):
                    if n <= _WHOLE:
                        divide_from_left(triangle, value)
                    else:
                        divide_vector(triangle, value[:, 0])
                return value.reshape(rhs.shape, order="F")
            size = n if few or n <= _WHOLE else self._block
            width = value.shape[1] if few else self._block
            parts = [_Part(value[:, first : first + width], 0) for first in range(0, value.shape[1], width)]
            rows = range(0, n, size)
            for row in rows:
                self._deal(partial(self._forward, size, row), parts)
            for row in rows[::-1] if back else ():
                self._deal(partial(self._backward, size, row), parts)
        return value.reshape(rhs.shape, order="F")

    def _forward(self, size: int, row: int, part: _Part) -> None:
        """Solve for some rows of L⁻¹ times what is in its place, from those before them."""
        first, values = part.first, part.values
        rows, here = self.lower[row : row + size], values[row - first : row - first + size]
        subtract_product(here, rows[:, first:row], values[: row - first])
        divide_from_left(rows[:, row : row + size], here)

    def _backward(self, size: int, row: int, part: _Part) -> None:
        """Solve for some rows of L⁻ᵀ times what is in its place, from those after them."""
        columns, here = self.lower[:, row : row + size].T, part.values[row : row + size]
        subtract_product(here, columns[:, row + size :], part.values[row + size :])
        divide_from_left(columns[:, row : row + size], here)

    def _begin_columns(self, squares: Matrix, first: int) -> _Part:
        """Note the squared norms of columns of the inverse of a corner; return what the rows below are solved from."""
        last = min(first + self._block, len(self.lower))
        corner, below = self.lower[first:last, first:last], self.lower[last:, first:last].copy(order="F")
        squares[first:last] = _column_squares(corner)
        divide_from_right(below, corner)
        return _Part(below, last)


def _column_squares(lower: Matrix) -> Matrix:
    """Return the squared norms of the columns of the inverse of a lower triangle (n, n), (n,).

    With L = [A 0; B C] the inverse is [A⁻¹ 0; -C⁻¹BA⁻¹ C⁻¹]: two solves, then the same for A and C.
    Nothing is computed of what is zero, and for small n it is faster than LAPACK's inverse.
    """
    squares = np.zeros(len(lower))
    room = np.empty(((len(lower) + 1) // 2) ** 2)
    _add_column_squares(lower, squares, room)
    return squares


def _add_column_squares(lower: Matrix, squares: Matrix, room: Matrix) -> None:
    # Not a function within the one above: it would be a reference cycle, which keeps the factor until it is collected.
    n = len(lower)
    if n <= _SMALLEST:
        inverse = np.zeros((n, n), order="F")
        copy_triangle(lower, inverse)
        invert_block(inverse)
        squares += np.einsum("ij,ij->j", inverse, inverse)
        return
    middle = (n + 1) // 2
    below = room[: (n - middle) * middle].reshape((n - middle, middle), order="F")
    below[:] = lower[middle:, :middle]
    divide_from_right(below, lower[:middle, :middle])
    divide_from_left(lower[middle:, middle:], below)
    squares[:middle] += np.einsum("ij,ij->j", below, below)
    _add_column_squares(lower[:middle, :middle], squares[:middle], room)
    _add_column_squares(lower[middle:, middle:], squares[middle:], room)
