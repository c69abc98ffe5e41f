"""The processor of this machine as a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.algebra.cholesky import factor
from thresher.algebra.descent import Descent
from thresher.algebra.pivots import LowRank, random_pivots
from thresher.algebra.ridge import solve_single
from thresher.devices import find_device
from thresher.estimators.backends.dense import ArrayKernel, ArrayLimit
from thresher.estimators.interfaces import Backend, Mix, Operator
from thresher.estimators.kernels.gradients import MIXED
from thresher.memory import available_bytes
from thresher.model.network import Network, NetworkSettings
from thresher.model.twins import predict_twins
from thresher.parallel import core_count
from thresher.shards import start_gram
from thresher.theory import Limit
from thresher.theory.limit_matrix import LimitMatrix, limit_block, limit_gradients_at, limit_product, limit_square

__all__ = ["Cpu", "descend", "local_backend"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_SINGLE = 512  # rows from which on gradients are made in single precision: three times as fast


class Cpu:
    """The processor."""

    arrays, block_rows, exact_is_costly = np, 256, True

    def __init__(self, threads: int | None = None) -> None:
        self.threads = core_count() if threads is None else threads

    def alone(self) -> Cpu:
        """Return the same on one thread."""
        return Cpu(1)

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

    def start_gram(self, inputs: Matrix, settings: NetworkSettings) -> ArrayKernel:
        """Return the Gram matrix of a start. Cost: O(mn(n/64 + d))."""
        return ArrayKernel(start_gram(inputs, settings, threads=self.threads))

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

    def quick_gradients(
        self, kernel: Limit, inputs: Matrix, targets: Matrix, penalty: Matrix, mix: Mix
    ) -> Matrix | None:
        """Return the gradients (c, n, d), of many rows in single precision, unless that fails. Cost: O(n³ + n²d)."""
        n, d = inputs.shape
        if n <= _SINGLE or min(targets.shape[1], MIXED) * d > n + 2 * d:
            return None
        fast = inputs.astype(np.float32)
        alpha = solve_single(limit_square(fast, kernel.shift, threads=self.threads), penalty, targets)
        return None if alpha is None else self.gradients(kernel, fast, fast, mix(alpha))

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

    def predict_twins(self, networks: Sequence[Network], inputs: Matrix) -> Matrix:
        """Return the outputs of networks. Cost: O(md/2) per row, and as much per network."""
        return predict_twins(networks, inputs, threads=self.threads)


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
