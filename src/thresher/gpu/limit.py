"""A GPU as a device of the estimators, see ``estimators/interfaces.py``, and the limit kernel of many inputs there.

A float32 matrix of n² numbers stays on the GPU, as many of its rows as fit; the others are made again for each product.
Products of inputs are in full single precision: those of tensor cores (TF32) keep ten bits, too few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank
from thresher.devices import device_bytes
from thresher.gpu.dense import Side, TensorLimit, cross_of
from thresher.gpu.kernels.limit import evaluate, evaluate_slope
from thresher.gpu.solver import Inverse, Lower, factor, random_pivots
from thresher.memory import require
from thresher.theory import Limit, limit_kernel, limit_slopes
from thresher.theory.limit_matrix import KINK, LimitInputs, polynomials

__all__ = ["Gpu", "GpuMatrix"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_COLUMNS = 8192  # of a matrix that are summed in single precision; these sums are added in double
_BLOCK = 1 << 28  # entries at most of a block of the kernel that is not kept, as much as an eighth of what is free
_CALLERS = 4  # threads at most that use the device at the same time
_FEW = 4096  # rows up to which kernels are in double precision; eight matrices of them are on the GPU at a time
_SQUARE, _RANK = 20_480, 2048  # rows of a kernel that choices are made on, and of a preconditioner, at the most


class Gpu:
    """One GPU, as a device of the estimators."""

    arrays, block_rows, exact_is_costly = torch, 1 << 14, False

    def __init__(self, device: Any, *, threads: int = 1) -> None:
        self.device, self.threads = device, min(threads, _CALLERS)
        torch.linalg.cholesky(torch.eye(2, device=device))  # loads a library, which threads must not do together

    @contextmanager
    def session(self) -> Iterator[None]:
        """Use full single precision for products, whatever the process has chosen; give back memory at the end."""
        chosen = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(chosen)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def spare(self) -> float:
        """Return the free bytes of the GPU."""
        return float(device_bytes(self.device))

    def require(self, rows: int, columns: int, outputs: int) -> None:
        """Refuse what does not fit even if no row of the kernel is kept."""
        rank = min(_RANK, rows // 8)
        per_row = 4 * (4 * columns + rank) + 8 * 36 * outputs
        fixed = 4 * min(rows, _SQUARE) ** 2 + 64 * rank**2 + 8 * min(_BLOCK, rows**2)
        fixed = 64 * rows**2 if rows <= _FEW else fixed
        free = 0.9 * self.spare()
        may = max(int((free - fixed) / per_row), 0)
        what = f"fitting {rows:,} rows of {columns:,} columns on the GPU"
        remedy = f"About {may:,} rows would fit. Fit fewer, or use device='cpu'."
        require(fixed + rows * per_row, budget=int(free), what=what, remedy=remedy, rows=may)

    def put(self, values: NDArray[Any]) -> Any:
        """Return a tensor with these values."""
        own = np.ascontiguousarray(values)
        return torch.as_tensor(own if own.flags.writeable else own.copy(), device=self.device)

    def get(self, values: Any) -> NDArray[Any]:
        """Return the values of a tensor."""
        return np.asarray(values.cpu().numpy())

    def operator(self, kernel: Limit, inputs: NDArray[Any], *, memory: float) -> GpuMatrix:
        """Return the kernel, as many of its rows as may be kept."""
        return GpuMatrix(kernel, inputs, memory=memory, gpu=self)

    def pivots(self, operator: Any, *, rank: int, seed: int = 0) -> LowRank:
        """Return a factor of low rank. Cost: O(nr(r + d))."""
        return random_pivots(operator, rank=rank, seed=seed)

    def inverse(self, low: LowRank, added: Matrix) -> Callable[[Any], Any]:
        """Return what nearly applies (K + added)⁻¹. Cost: O(nr²) and O(r³), then O(nr) per vector."""
        return Inverse(low.factor[:, : len(added)], self.put(1 / (added + low.left)))

    def block(self, kernel: Limit, left: Any, right: Any, out: Any = None) -> Any:
        """Return the kernel (k, n), float32. Cost: O(d) per entry."""
        shift, rows, columns = float(kernel.shift), Side.of(left, kernel), Side.of(right, kernel)
        products = torch.mm(rows.vectors, columns.vectors.T, out=out)
        if polynomials(shift) is None:  # a shift that polynomials do not reach
            products.copy_(self.put(limit_kernel(self.get(products.double()), shift, symmetric=False)))
        else:
            evaluate(products, *_coefficients(shift, self.device))
        rows.add_parts(products, columns, kernel)
        return products

    def factor(self, matrix: Any, added: float) -> Lower | None:
        """Return the Cholesky factor in double precision. Cost: O(n³/3)."""
        return factor(matrix.double(), added)

    def divide(self, lower: Matrix, columns: Any) -> Any:
        """Return L⁻¹ times columns, in double precision. Cost: O(n²k)."""
        return torch.linalg.solve_triangular(self.put(lower), columns.double(), upper=False)

    def product(
        self, kernel: Limit, others: NDArray[Any], inputs: NDArray[Any], vectors: Matrix, *, double: bool = False
    ) -> Matrix:
        """Return the kernel times vectors, in blocks. Cost: O(nd) per row of the others."""
        if double:
            left, right, columns = self.put(others), Side.of(self.put(inputs), kernel), self.put(vectors)
            blocks = (Side.of(left[rows], kernel) for rows in self.slices(len(left), len(inputs)))
            return self.get(torch.cat([cross_of(rows, right, kernel) @ columns for rows in blocks]))
        left, right, columns = (self.put(np.asarray(one, np.float32)) for one in (others, inputs, vectors))
        found = torch.empty((len(left), columns.shape[1]), dtype=torch.float64, device=self.device)
        for rows in self.slices(len(left), len(right)):
            found[rows] = multiply(self.block(kernel, left[rows], right), columns)
        return self.get(found)

    def gradients(self, kernel: Limit, others: Single, inputs: Single, alpha: Matrix) -> Matrix:
        """Return the gradients (c, k, d). Cost: O(nd) per output and row."""
        left, right, columns = (self.put(np.asarray(one, np.float32)) for one in (others, inputs, alpha))
        found = torch.empty((columns.shape[1], *left.shape), device=self.device)
        for rows in self.slices(len(left), len(right)):
            slopes = self._slopes(left[rows], right, kernel.shift)
            for output, one in enumerate(columns.T):
                found[output, rows] = slopes @ (one[:, None] * right)
        return self.get(found.double())

    def _slopes(self, left: Any, right: Any, shift: float) -> Any:
        products = torch.mm(left, right.T)
        if polynomials(float(shift)) is not None:
            evaluate_slope(products, *_coefficients(float(shift), self.device), KINK)
            return products
        exact = self.get(products.double())
        slopes = limit_slopes(exact, shift, symmetric=False)[1]
        return self.put(np.where(np.abs(exact) < 1 - KINK, slopes, 0.0).astype(np.float32))

    def dense(self, kernel: Limit, inputs: Matrix, *, gradients: bool = False) -> TensorLimit:
        """Return the limit kernel. Cost: O(n²d)."""
        return TensorLimit(inputs, kernel, self, gradients=gradients)

    def slices(self, rows: int, columns: int) -> list[slice]:
        """Return blocks of the rows of a kernel (rows, columns) that is not kept."""
        if not rows:
            return []
        size = int(min(_BLOCK, self.spare() / 32)) // max(columns, 1)
        size = max(4, size // 4 * 4)  # so that blocks begin at places that the GPU reads faster
        return [slice(first, first + size) for first in range(0, rows, size)]


class GpuMatrix(LimitInputs):
    """The limit kernel (n, n) of inputs (n, d), as an operator; ``memory`` are the bytes that may be kept, of 4 n²."""

    def __init__(self, kernel: Limit, inputs: NDArray[Any], *, memory: float, gpu: Gpu) -> None:
        self._gpu, self.device = gpu, gpu.device
        kept = int(min(len(inputs), max(memory, 0.0) // (4 * len(inputs))))
        self._store = torch.empty((kept, len(inputs)), device=self.device)
        self.renewed(kernel, inputs)

    def renewed(self, kernel: Limit, inputs: NDArray[Any]) -> GpuMatrix:
        """Return the matrix of other inputs, as many, in the memory of this one, which is lost."""
        self._take(inputs, kernel.shift, kernel.parts)
        self._kernel = kernel
        self._rows, self._made = self._gpu.put(self.inputs), False
        return self

    @property
    def kept(self) -> float:
        """The share of the matrix that is kept between products."""
        return len(self._store) / len(self)

    def columns(self, rows: NDArray[np.int64]) -> Any:
        """Return some rows of the matrix (k, n), which are its columns too. Cost: O(nd) each."""
        places = self._gpu.put(rows)
        found = self._gpu.block(self._kernel, self._rows[places], self._rows)
        found[torch.arange(len(rows), device=self.device), places] = self.diagonal
        return found

    def times(self, vectors: Any) -> Any:
        """Return the matrix times vectors (r, c), rows beyond r counting as zero: (n, c), float64.

        Cost: O(n²) per vector, and O(nd) for each row that is not kept.
        """
        columns, kept = vectors.float(), len(self._store)
        found = torch.empty((len(self), columns.shape[1]), dtype=torch.float64, device=self.device)
        if not self._made:
            for rows in self._gpu.slices(kept, len(self)):
                self._panel(rows.start, self._store[rows])
            self._made = True
        found[:kept] = multiply(self._store, columns)
        for rows in self._gpu.slices(len(self) - kept, len(self)):
            first, last = kept + rows.start, min(kept + rows.stop, len(self))
            room = torch.empty((last - first, len(self)), device=self.device)
            found[first:last] = multiply(self._panel(first, room), columns)
        return found

    def _panel(self, first: int, out: Any) -> Any:
        """Write rows of the matrix, from the first on, to ``out`` (k, n); products of float32 miss its diagonal."""
        self._gpu.block(self._kernel, self._rows[first : first + len(out)], self._rows, out)
        out[:, first : first + len(out)].fill_diagonal_(self.diagonal)
        return out


@lru_cache(maxsize=32)
def _coefficients(shift: float, device: Any) -> tuple[Any, Any]:
    near, far = (torch.as_tensor(one.copy(), device=device) for one in polynomials(shift) or ())
    return near, far


def multiply(matrix: Any, columns: Any) -> Any:
    """Return the first columns of a matrix (k, n), as many as there are rows of ``columns`` (r, c), times them."""
    total = torch.zeros((len(matrix), columns.shape[1]), dtype=torch.float64, device=matrix.device)
    for first in range(0, len(columns), _COLUMNS):
        some = columns[first : first + _COLUMNS]
        total += matrix[:, first : first + len(some)] @ some
    return total
