"""The joints of a fit: a ``Kernel`` makes inputs of rows, a ``Backend`` computes with it.

Values that are handed over are NumPy arrays; *device arrays*, which are only passed on, combined by operators or
indexed, stay where they are computed. Kernels of few rows are matrices in double precision (:class:`DenseOperator`),
those of many rows operators in single precision (:class:`Operator`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank
from thresher.algebra.ridge import Inverse
from thresher.estimators.data.observations import Observations
from thresher.theory import Limit

__all__ = ["Backend", "DenseLimit", "DenseOperator", "Kernel", "Lifted", "Operator"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]


class Lifted(NamedTuple):
    """Inputs of unit norm (n, coordinates), the norms of their rows before (n,), and the bias coordinate."""

    inputs: Matrix
    norms: Matrix
    last: float


class Kernel(Limit, Protocol):
    """The kernel of rows (n, r); see ``kernel.py``."""

    def coordinates(self, rows: Matrix) -> Matrix:
        """Return rows (n, r) as they are before they are divided by their norms."""

    def lift(self, rows: Matrix, weights: Matrix | None = None, *, last: float | None = None) -> Lifted:
        """Return the inputs of rows; the bias coordinate is that of these rows unless it is given."""

    def penalty(self, ridge: float, weights: Matrix) -> Matrix:
        """Return what a ridge adds to the diagonal (n,) for rows with these weights."""

    def outer_products(self, data: Observations, ridge: float, backend: Backend) -> Matrix | None:
        """Return the weighted sum (r, r) of outer products of gradients of a fit; None if there is none."""


class DenseOperator(Protocol):
    """A kernel (n, n) of few inputs, in double precision."""

    def __len__(self) -> int:
        """Return n."""

    def dense(self) -> Matrix:
        """Return the matrix."""

    def last(self, size: int) -> DenseOperator:
        """Return the kernel of the last inputs, no more than ``size``."""

    def invert(self, penalty: Matrix, targets: Matrix, *, last: int, whole: bool) -> Inverse | None:
        """Return what leaving out needs of (H + penalty)⁻¹; None if that is not positive.

        The ``last`` numbers of its diagonal, or with ``whole`` all of them and how they change.
        """

    def solve(self, penalty: Matrix, targets: Matrix) -> Matrix | None:
        """Return (H + penalty)⁻¹ targets (r, k), for the kernel H of the first r inputs; None if not positive."""


class DenseLimit(DenseOperator, Protocol):
    """The limit kernel of few inputs (n, d)."""

    def outer_products(self, alpha: Matrix, *, scale: Matrix, columns: int) -> Matrix:
        """Return sums of outer products of gradients; see :func:`gradients.sum_outer_products`."""

    def explained(self, penalty: Matrix) -> Callable[[Matrix], Matrix] | None:
        """Return what tells for other inputs (m, d) how much of their variance is known (m,); None if not positive."""


class Operator(Protocol):
    """The limit kernel (n, n) of inputs (n, d), in single precision."""

    @property
    def inputs(self) -> Single:
        """The inputs (n, d), a NumPy array."""

    @property
    def diagonal(self) -> float:
        """Every entry of the diagonal."""

    def __len__(self) -> int:
        """Return n."""

    def renewed(self, kernel: Limit, inputs: NDArray[Any]) -> Self:
        """Return the matrix of other inputs, as many, in the memory of this one, which is lost."""

    def columns(self, rows: NDArray[np.int64]) -> Any:
        """Return some rows of the matrix (k, n), which are its columns too: a device array."""

    def times(self, vectors: Any) -> Any:
        """Return the matrix times vectors (r, c), rows beyond r counting as zero: (n, c), device arrays."""


class Backend(Protocol):
    """Blocks of a kernel and linear algebra, on a processor or a GPU.

    Contract: ``tests/estimators/test_backends.py``.
    """

    threads: int  # that may call at the same time
    block_rows: int  # of a stream, that are best taken at a time
    exact_is_costly: bool  # whether an exact fit of very many rows costs several times as much as others

    @property
    def arrays(self) -> Any:
        """The module of device arrays: numpy or torch."""

    def session(self) -> AbstractContextManager[object]:
        """Return a context for a fit or a prediction."""

    def spare(self) -> float:
        """Return the bytes that are free where matrices are kept."""

    def require(self, rows: int, columns: int, outputs: int) -> None:
        """Refuse a fit of more rows than there is memory for, with the number that would fit."""

    def put(self, values: NDArray[Any]) -> Any:
        """Return a device array with these values."""

    def get(self, values: Any) -> NDArray[Any]:
        """Return the values of a device array."""

    def dense(self, kernel: Limit, inputs: Matrix, *, gradients: bool = False) -> DenseLimit:
        """Return the limit kernel of few inputs (n, d), with or without what gradients need of it."""

    def operator(self, kernel: Limit, inputs: NDArray[Any], *, memory: float) -> Operator:
        """Return the kernel of inputs (n, d); ``memory`` are the bytes that may be kept between products."""

    def block(self, kernel: Limit, left: Any, right: Any) -> Any:
        """Return the kernel (k, n) between inputs (k, d) and (n, d): device arrays in single precision."""

    def product(
        self, kernel: Limit, others: NDArray[Any], inputs: NDArray[Any], vectors: Matrix, *, double: bool = False
    ) -> Matrix:
        """Return the kernel between others (k, d) and inputs (n, d), times vectors (n, c), (k, c)."""

    def gradients(self, kernel: Limit, others: Single, inputs: Single, alpha: Matrix) -> Matrix:
        """Return the gradients (c, k, d) at others (k, d) of the limit with coefficients alpha (n, c) on inputs."""

    def pivots(self, operator: Operator, *, rank: int, seed: int = 0) -> LowRank:
        """Return a factor of low rank, a device array, from random pivots."""

    def inverse(self, low: LowRank, added: Matrix) -> Callable[[Any], Any]:
        """Return what nearly applies (K + added)⁻¹, for the first rows of K, as many as in ``added`` (n,)."""

    def factor(self, matrix: Any, added: float) -> Any:
        """Return what solves with a positive matrix (n, n) and a number added to its diagonal; None if it is not."""

    def divide(self, lower: Matrix, columns: Any) -> Any:
        """Return L⁻¹ times columns (n, k), a device array, for a lower triangle L (n, n)."""
