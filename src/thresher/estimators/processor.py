"""The processor of this machine as a backend; kernels of few inputs are matrices in its memory, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.algebra.cholesky import factor
from thresher.algebra.descent import Descent
from thresher.algebra.pivots import LowRank, random_pivots
from thresher.algebra.ridge import Inverse, invert
from thresher.devices import find_device
from thresher.estimators.gradients import sum_outer_products
from thresher.estimators.interfaces import Backend, Operator
from thresher.memory import available_bytes
from thresher.parallel import core_count, in_order
from thresher.theory import Limit, Parts, limit_kernel, limit_slopes
from thresher.theory.limit_matrix import (
    LimitMatrix,
    limit_block,
    limit_cross,
    limit_gradients_at,
    limit_product,
)

__all__ = ["ArrayKernel", "ArrayLimit", "Cpu", "descend", "local_backend"]

Single = NDArray[np.float32]
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


class Cpu:
    """The processor."""

    arrays, block_rows, exact_is_costly = np, 256, True

    def __init__(self, threads: int | None = None) -> None:
        self.threads = core_count() if threads is None else threads

    def session(self) -> AbstractContextManager[object]:
        """Return a context in which nothing changes."""
        return nullcontext()

    def spare(self) -> float:
        """Return the free memory of the machine."""
        return float(available_bytes())

    def require(self, rows: int, columns: int, outputs: int) -> None:
        """Refuse nothing: a fit asks for the memory of the machine itself."""

    def put(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values themselves."""
        return values

    def get(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values themselves."""
        return values

    def dense(self, kernel: Limit, inputs: Matrix, *, gradients: bool = False) -> ArrayLimit:
        """Return the limit kernel. Cost: O(n²d)."""
        return ArrayLimit(inputs, kernel, gradients=gradients)

    def operator(self, kernel: Limit, inputs: NDArray[Any], *, memory: float) -> LimitMatrix:
        """Return half of the kernel, as much of it as may be kept."""
        return LimitMatrix(inputs, kernel.shift, memory=memory, threads=self.threads, parts=kernel.parts)

    def block(self, kernel: Limit, left: Single, right: Single) -> Single:
        """Return the kernel (k, n), on the calling thread."""
        return limit_block(left, right, kernel.shift, parts=kernel.parts)

    def product(
        self, kernel: Limit, others: NDArray[Any], inputs: NDArray[Any], vectors: Matrix, *, double: bool = False
    ) -> Matrix:
        """Return the kernel times vectors, in blocks. Cost: O(nd) per row of the others."""
        return limit_product(
            others, inputs, vectors, kernel.shift, threads=self.threads, double=double, parts=kernel.parts
        )

    def gradients(self, kernel: Limit, others: Single, inputs: Single, alpha: Matrix) -> Matrix:
        """Return the gradients (c, k, d). Cost: O(nd) per output and row."""
        return limit_gradients_at(others, inputs, alpha, kernel.shift, threads=self.threads)

    def pivots(self, operator: Operator, *, rank: int, seed: int = 0) -> LowRank:
        """Return a factor of low rank. Cost: r columns, and O(nr²)."""
        diagonal = np.full(len(operator), operator.diagonal)
        return random_pivots(diagonal, operator.columns, rank=rank, seed=seed, threads=self.threads)

    def inverse(self, low: LowRank, added: Matrix) -> Callable[[Matrix], Matrix]:
        """Return what nearly applies (K + added)⁻¹. Cost: O(nr²) and O(r³), then O(nr) per vector."""
        return low._replace(factor=low.factor[:, : len(added)]).inverse(added, threads=self.threads)

    def factor(self, matrix: Matrix, added: float) -> Any:
        """Return the Cholesky factor. Cost: O(n³/3)."""
        return factor(matrix, added=added, threads=self.threads)

    def divide(self, lower: Matrix, columns: NDArray[Any]) -> Matrix:
        """Return L⁻¹ times columns. Cost: O(n²k)."""
        return np.asarray(linalg.solve_triangular(lower, columns, lower=True, check_finite=False))


def descend(
    backend: Backend,
    times: Callable[[Any], Any],
    rhs: Matrix,
    *,
    added: Matrix,
    inverse: Callable[[Any], Any],
    start: Matrix | None = None,
) -> Descent:
    """Return conjugate gradients whose vectors stay on a backend, from NumPy arrays."""
    first = None if start is None else backend.put(start)
    return Descent(
        times, backend.put(rhs), added=backend.put(added), inverse=inverse, start=first, arrays=backend.arrays
    )


def local_backend(device: str, threads: int | None = None) -> Backend:
    """Return the backend of a device of this machine; where there is no GPU, "cuda" is refused in one line."""
    found = find_device(device)
    if found is None:
        return Cpu(threads)
    from thresher.gpu.limit import Gpu  # torch is imported once a GPU was asked for

    return Gpu(found, threads=core_count() if threads is None else threads)
