"""Where kernels are computed: the one interface between fits and a processor or a GPU.

What a fit computes with a kernel goes through a device. Values that fits hand over and get back are NumPy arrays;
*device arrays*, which fits only pass on, combine by operators or index, stay where they are. Kernels of few rows are
matrices in double precision (:class:`DenseKernel`), those of many operators in single precision
(:class:`KernelMatrix`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.algebra import DirectFactor
from thresher.algebra.cholesky import factor
from thresher.algebra.descent import Descent
from thresher.algebra.pivots import LowRank, random_pivots
from thresher.algebra.ridge import Evidence, Inverse, solve_single
from thresher.devices import find_device
from thresher.estimators.kernels.gradients import limit_gradients
from thresher.estimators.kernels.kernels import ArrayKernel, ArrayLimit, evidence, explained, limit_of
from thresher.memory import available_bytes
from thresher.model.network import Network, NetworkSettings
from thresher.model.twins import predict_twins
from thresher.parallel import core_count
from thresher.shards import start_gram
from thresher.theory import limit_kernel
from thresher.theory.limit_matrix import LimitMatrix, limit_block, limit_gradients_at, limit_product, limit_square

__all__ = ["Cpu", "DenseKernel", "DenseLimit", "Device", "KernelMatrix", "device_of"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Mix = Callable[[Matrix], Matrix]  # makes c outputs (n, c) of coefficients (n, k)
_ROW_BLOCK = 1024  # rows at a time that are predicted in double precision


class DenseKernel(Protocol):
    """A kernel (n, n) of few inputs, of the limit or of a network, in double precision."""

    def __len__(self) -> int:
        """Return n."""

    def dense(self) -> Matrix:
        """Return the matrix."""

    def last(self, size: int) -> DenseKernel:
        """Return the kernel of the last inputs, no more than ``size``."""

    def solve(self, penalty: Matrix, targets: Matrix) -> Matrix | None:
        """Return (H + penalty)⁻¹ targets (r, k), for the kernel H of the first r inputs; None if not positive."""

    def invert(self, penalty: Matrix, targets: Matrix, *, last: int, whole: bool) -> Inverse | None:
        """Return what leaving out needs of (H + penalty)⁻¹; None if that is not positive.

        The ``last`` numbers of its diagonal, or with ``whole`` all of them and how they change.
        """

    def near(self, penalty: Matrix) -> DirectFactor | None:
        """Return what preconditions solves with kernels near this one, with a penalty; None if none is needed."""

    def rest(self, alpha: Matrix) -> Matrix:
        """Return the kernel between the inputs beyond those of alpha (r, k) and these, times alpha, (n - r, k)."""


class DenseLimit(DenseKernel, Protocol):
    """The limit kernel of few inputs (n, d)."""

    def outer_products(self, alpha: Matrix, *, scale: Matrix, columns: int) -> Matrix:
        """Return sums of outer products of gradients; see :func:`gradients.sum_outer_products`."""


class KernelMatrix(Protocol):
    """The limit kernel (n, n) of inputs (n, d), as an operator."""

    @property
    def inputs(self) -> Single:
        """The inputs (n, d), a NumPy array."""

    @property
    def diagonal(self) -> float:
        """Every entry of the diagonal."""

    def __len__(self) -> int:
        """Return n."""

    def renewed(self, inputs: NDArray[Any], shift: float) -> Self:
        """Return the matrix of other inputs, as many, in the memory of this one, which is lost."""

    def columns(self, rows: NDArray[np.int64]) -> Any:
        """Return some rows of the matrix (k, n), which are its columns too: a device array."""

    def times(self, vectors: Any) -> Any:
        """Return the matrix times vectors (r, c), rows beyond r counting as zero: (n, c), device arrays."""


class Device(Protocol):
    """A processor or a GPU."""

    threads: int  # that may call at the same time
    rows: int  # of a stream, that are best taken at a time
    dear: bool  # whether an exact fit of very many rows costs several times as much as others

    @property
    def arrays(self) -> Any:
        """The module of device arrays: numpy or torch."""

    def alone(self) -> Device:
        """Return the device for one of several threads."""

    def session(self) -> AbstractContextManager[object]:
        """Return a context for a fit or a prediction."""

    def spare(self) -> float:
        """Return the bytes that are free where matrices are kept."""

    def require(self, rows: int, columns: int, outputs: int) -> None:
        """Refuse a fit of more rows than the device has memory for, with the number that would fit."""

    def put(self, values: NDArray[Any]) -> Any:
        """Return a device array with these values."""

    def get(self, values: Any) -> NDArray[Any]:
        """Return the values of a device array."""

    def matrix(self, inputs: NDArray[Any], shift: float, *, memory: float) -> KernelMatrix:
        """Return the kernel of inputs (n, d); ``memory`` are the bytes that may be kept between products."""

    def passes(self, sweep: Any) -> Any:
        """Return what makes passes over rows, where this ``Sweep`` would make them: it has ``sums`` as that has."""

    def pivots(self, matrix: KernelMatrix, *, rank: int, seed: int = 0) -> LowRank:
        """Return a factor of low rank, a device array, from random pivots."""

    def inverse(self, low: LowRank, added: Matrix) -> Callable[[Any], Any]:
        """Return what nearly applies (K + added)⁻¹, for the first rows of K, as many as in ``added`` (n,)."""

    def block(self, left: Any, right: Any, shift: float) -> Any:
        """Return the kernel (k, n) between inputs (k, d) and (n, d): device arrays in single precision."""

    def factor(self, matrix: Any, added: float) -> Any:
        """Return what solves with a positive matrix (n, n) and a number added to its diagonal; None if it is not."""

    def divide(self, lower: Matrix, columns: Any) -> Any:
        """Return L⁻¹ times columns (n, k), a device array, for a lower triangle L (n, n)."""

    def product(self, others: NDArray[Any], inputs: NDArray[Any], vectors: Matrix, shift: float) -> Matrix:
        """Return the kernel between others (k, d) and inputs (n, d), times vectors (n, c), (k, c)."""

    def gradients(self, others: Single, inputs: Single, alpha: Matrix, shift: float) -> Matrix:
        """Return the gradients (c, k, d) at others (k, d) of the limit with coefficients alpha (n, c) on inputs."""

    def fit_gradients(self, inputs: Matrix, targets: Matrix, penalty: Matrix, shift: float, mix: Mix) -> Matrix | None:
        """Return the gradients (c, n, d) of a fit in double precision at its own inputs (n, d); None without a fit."""

    def quick_gradients(
        self, inputs: Matrix, targets: Matrix, penalty: Matrix, shift: float, mix: Mix
    ) -> Matrix | None:
        """Return the same in the precision that is fastest, single at least."""

    def kernel(self, inputs: Matrix, shift: float, *, gradients: bool = False) -> DenseLimit:
        """Return the limit kernel of few inputs (n, d), with or without what gradients need of it."""

    def start_gram(self, inputs: Matrix, settings: NetworkSettings) -> DenseKernel:
        """Return the Gram matrix of a network at its start, on few inputs (n, d)."""

    def evidence(self, inputs: Matrix, shift: float, penalty: Matrix, targets: Matrix) -> Evidence | None:
        """Return what the likelihood of targets (n, k) needs of the limit of few inputs; None if not positive."""

    def explained(self, inputs: Matrix, shift: float, penalty: Matrix) -> Callable[[Matrix], Matrix] | None:
        """Return what tells for other inputs (m, d) how much of their variance is known (m,); None if not positive."""

    def exact_product(self, others: Matrix, inputs: Matrix, vectors: Matrix, shift: float) -> Matrix:
        """Return the same as :meth:`product` in double precision."""

    def predict_twins(self, networks: Sequence[Network], inputs: Matrix) -> Matrix:
        """Return the outputs (m, networks) of dense networks of twins of one start, on inputs (m, d)."""


class Cpu:
    """The processor."""

    arrays, rows, dear = np, 256, True

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

    def matrix(self, inputs: NDArray[Any], shift: float, *, memory: float) -> LimitMatrix:
        """Return half of the kernel, as much of it as may be kept."""
        return LimitMatrix(inputs, shift, memory=memory, threads=self.threads)

    def passes(self, sweep: Any) -> Any:
        """Return the sweep itself."""
        return sweep

    def pivots(self, matrix: KernelMatrix, *, rank: int, seed: int = 0) -> LowRank:
        """Return a factor of low rank. Cost: r columns, and O(nr²)."""
        diagonal = np.full(len(matrix), matrix.diagonal)
        return random_pivots(diagonal, matrix.columns, rank=rank, seed=seed, threads=self.threads)

    def inverse(self, low: LowRank, added: Matrix) -> Callable[[Matrix], Matrix]:
        """Return what nearly applies (K + added)⁻¹. Cost: O(nr²) and O(r³), then O(nr) per vector."""
        return low._replace(factor=low.factor[:, : len(added)]).inverse(added, threads=self.threads)

    def block(self, left: Single, right: Single, shift: float) -> Single:
        """Return the kernel (k, n), on the calling thread."""
        return limit_block(left, right, shift)

    def factor(self, matrix: Matrix, added: float) -> Any:
        """Return the Cholesky factor. Cost: O(n³/3)."""
        return factor(matrix, added=added, threads=self.threads)

    def divide(self, lower: Matrix, columns: NDArray[Any]) -> Matrix:
        """Return L⁻¹ times columns. Cost: O(n²k)."""
        return np.asarray(linalg.solve_triangular(lower, columns, lower=True, check_finite=False))

    def product(self, others: NDArray[Any], inputs: NDArray[Any], vectors: Matrix, shift: float) -> Matrix:
        """Return the kernel times vectors, in blocks. Cost: O(nd) per row of the others."""
        return limit_product(others, inputs, vectors, shift, threads=self.threads)

    def gradients(self, others: Single, inputs: Single, alpha: Matrix, shift: float) -> Matrix:
        """Return the gradients (c, k, d). Cost: O(nd) per output and row."""
        return limit_gradients_at(others, inputs, alpha, shift, threads=self.threads)

    def fit_gradients(self, inputs: Matrix, targets: Matrix, penalty: Matrix, shift: float, mix: Mix) -> Matrix | None:
        """Return the gradients (c, n, d). Cost: O(n³ + n²d)."""
        kernel = limit_of(inputs, shift)
        made = factor(kernel, added=penalty, threads=self.threads)
        if made is None:
            return None
        return np.stack(list(limit_gradients(inputs, mix(made.solve(targets)), kernel=kernel, shift=shift)))

    def quick_gradients(
        self, inputs: Matrix, targets: Matrix, penalty: Matrix, shift: float, mix: Mix
    ) -> Matrix | None:
        """Return the gradients (c, n, d), in single precision. Cost: O(n³ + n²d)."""
        fast = inputs.astype(np.float32)
        alpha = solve_single(limit_square(fast, shift, threads=self.threads), penalty, targets)
        return None if alpha is None else limit_gradients_at(fast, fast, mix(alpha), shift, threads=self.threads)

    def kernel(self, inputs: Matrix, shift: float, *, gradients: bool = False) -> ArrayLimit:
        """Return the limit kernel. Cost: O(n²d)."""
        return ArrayLimit(inputs, shift, gradients=gradients)

    def start_gram(self, inputs: Matrix, settings: NetworkSettings) -> ArrayKernel:
        """Return the Gram matrix of a start. Cost: O(mn(n/64 + d))."""
        return ArrayKernel(start_gram(inputs, settings, threads=self.threads))

    def evidence(self, inputs: Matrix, shift: float, penalty: Matrix, targets: Matrix) -> Evidence | None:
        """Return what the likelihood needs. Cost: O(n³ + n²d)."""
        return evidence(inputs, shift, penalty, targets)

    def explained(self, inputs: Matrix, shift: float, penalty: Matrix) -> Callable[[Matrix], Matrix] | None:
        """Return what tells how much is known. Cost: O(n³/3), then O(n²) for each input."""
        return explained(inputs, shift, penalty)

    def exact_product(self, others: Matrix, inputs: Matrix, vectors: Matrix, shift: float) -> Matrix:
        """Return the kernel times vectors, in blocks. Cost: O(nd) per row of the others."""
        blocks = (others[first : first + _ROW_BLOCK] @ inputs.T for first in range(0, len(others), _ROW_BLOCK))
        return np.concatenate([limit_kernel(one, shift, symmetric=False) @ vectors for one in blocks])

    def predict_twins(self, networks: Sequence[Network], inputs: Matrix) -> Matrix:
        """Return the outputs of networks. Cost: O(md/2) per row, and as much per network."""
        return predict_twins(networks, inputs, threads=self.threads)


def descend(
    device: Device,
    times: Callable[[Any], Any],
    rhs: Matrix,
    *,
    added: Matrix,
    inverse: Callable[[Any], Any],
    start: Matrix | None = None,
) -> Descent:
    """Return conjugate gradients whose vectors stay on a device, from NumPy arrays."""
    first = None if start is None else device.put(start)
    return Descent(times, device.put(rhs), added=device.put(added), inverse=inverse, start=first, arrays=device.arrays)


def device_of(name: str, threads: int | None = None) -> Device:
    """Return the device that a name stands for; where there is no GPU, "cuda" is refused in one line."""
    found = find_device(name)
    if found is None:
        return Cpu(threads)
    from thresher.gpu.limit import Gpu  # torch is imported once a GPU was asked for

    return Gpu(found, threads=core_count() if threads is None else threads)
