"""Kernels of few inputs on a GPU, in double precision: ``estimators/processor.py`` with tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.algebra.ridge import Inverse
from thresher.gpu.kernels.limit import interpolate
from thresher.gpu.kernels.parts import add_parts
from thresher.gpu.solver import factor
from thresher.theory import Limit, Parts, limit_slopes
from thresher.theory.kernel import probability_table

__all__ = ["Side", "TensorKernel", "TensorLimit", "cross_of"]

Matrix = NDArray[np.float64]


@lru_cache(maxsize=32)
def _table(shift: float, device: Any) -> Any:
    table = probability_table(shift)
    return None if table is None else torch.from_numpy(table).to(device)


def cross_of(left: Side, right: Side, kernel: Limit) -> Any:
    """Return the kernel (k, n) between two sides, float64. Cost: O(d) per entry."""
    cross = _limit_of(left.vectors @ right.vectors.T, kernel.shift)[0]
    left.add_parts(cross, right, kernel)
    return cross


def _limit_of(products: Any, shift: float, *, slopes: bool = False) -> tuple[Any, Any]:
    """Return the limit kernel of inner products (k, n), float64, and its slope, if asked for, or None."""
    table = _table(float(shift), products.device)
    if table is None:  # a shift at which the probability bends too sharply for it
        exact = products.cpu().numpy()
        kernel, change = (torch.from_numpy(one) for one in limit_slopes(exact, shift, symmetric=False))
        return kernel.to(products.device), change.to(products.device) if slopes else None
    made, change = torch.empty_like(products), torch.empty_like(products) if slopes else None
    interpolate(products, table, made, change)
    return made, change


class Side(NamedTuple):
    """Inputs on one side of a block: unit vectors (n, d), and the angles (columns, n) of parts."""

    vectors: Any
    angles: Any  # None without parts

    @classmethod
    def of(cls, inputs: Any, kernel: Limit) -> Side:
        """Return a side of inputs (n, d), whose last coordinates are the angles of parts if the kernel has them."""
        if kernel.parts is None:
            return cls(inputs, None)
        columns = kernel.parts.columns
        return cls(inputs[:, :-columns], inputs[:, -columns:].T.contiguous())

    def add_parts(self, block: Any, right: Side, kernel: Limit) -> None:
        """Turn the kernel of all columns (k, n) in a block, contiguous, into that of parts, if there are any.

        Cost: O(columns) per entry.
        """
        if kernel.parts is not None:
            factors = _factors(kernel.parts, float(kernel.diagonal), block.dtype, block.device)
            add_parts(block, self.angles, right.angles, factors, layer=kernel.parts.shares.layer > 0)


@lru_cache(maxsize=32)
def _factors(parts: Parts, diagonal: float, kind: Any, device: Any) -> Any:
    return torch.as_tensor(parts.factors(diagonal), dtype=kind, device=device)


class TensorKernel:
    """A kernel (n, n); see ``DenseOperator`` in ``estimators/interfaces.py``."""

    def __init__(self, matrix: Any, gpu: Any) -> None:
        self._matrix, self._gpu = matrix, gpu

    def __len__(self) -> int:
        """Return n."""
        return len(self._matrix)

    def dense(self) -> Matrix:
        """Return the matrix, in the memory of the processor."""
        return np.asarray(self._gpu.get(self._matrix))

    def last(self, size: int) -> TensorKernel:
        """Return the kernel of the last inputs, as a view."""
        return TensorKernel(self._matrix[-size:, -size:], self._gpu)

    def solve(self, penalty: Matrix, targets: Matrix) -> Matrix | None:
        """Return (H + penalty)⁻¹ targets. Cost: O(n³/3)."""
        made = factor(self._matrix[: len(penalty), : len(penalty)], self._gpu.put(penalty))
        return None if made is None else np.asarray(self._gpu.get(made.solve(self._gpu.put(targets))))

    def invert(self, penalty: Matrix, targets: Matrix, *, last: int, whole: bool) -> Inverse | None:
        """Return what leaving out needs of (H + penalty)⁻¹. Cost: O(n³)."""
        added = self._gpu.put(penalty)
        made = factor(self._matrix, added)
        if made is None:
            return None
        alpha = made.solve(self._gpu.put(targets))
        if not whole:
            corner = made.lower[-last:, -last:]
            unit = torch.eye(len(corner), dtype=corner.dtype, device=corner.device)
            diagonal = (torch.linalg.solve_triangular(corner, unit, upper=False) ** 2).sum(dim=0)
            return Inverse(self._gpu.get(alpha), self._gpu.get(diagonal), None)
        inverse = torch.cholesky_inverse(made.lower)
        change, fall = made.solve(added[:, None] * alpha), inverse**2 @ added
        outputs = alpha.shape[1]  # all that is needed comes in one piece
        found = self._gpu.get(torch.column_stack([alpha, change, inverse.diagonal(), fall]))
        changes = found[:, outputs : 2 * outputs], found[:, -1]
        return Inverse(np.ascontiguousarray(found[:, :outputs]), found[:, -2], changes)


class TensorLimit(TensorKernel):
    """The limit kernel of inputs (n, d); for gradients their inner products and slopes (n, n) are kept.

    There are none of a kernel of parts: metrics are learnt with that of all columns.
    """

    def __init__(self, inputs: Matrix, kernel: Limit, gpu: Any, *, gradients: bool) -> None:
        assert not (gradients and kernel.parts), "gradients are those of the kernel of all columns"
        self._side, self._kernel = Side.of(gpu.put(inputs), kernel), kernel
        if gradients:
            self._products = self._side.vectors @ self._side.vectors.T
            matrix, self._slopes = _limit_of(self._products, kernel.shift, slopes=True)
        else:
            matrix = cross_of(self._side, self._side, kernel)
        super().__init__(matrix, gpu)

    def outer_products(self, alpha: Matrix, *, scale: Matrix, columns: int) -> Matrix:
        """Return the sum over rows and outputs of outer products of gradients, see ``sum_outer_products``.

        Cost: O(n²(n + d)) for any number of outputs, or O(n²d) for each where that is less.
        """
        inputs, slopes = self._side.vectors, self._slopes
        outputs, added = self._gpu.put(alpha), self._gpu.put(scale)
        (n, d), k = inputs.shape, alpha.shape[1]
        some = inputs[:, :columns]
        if k * d <= n + 2 * d:
            along = (slopes @ (outputs[:, :, None] * inputs[:, None]).reshape(n, k * d)).reshape(n, k, d)
            along = along - (along @ inputs[:, :, None]) * inputs[:, None]
            scaled = (added.sqrt()[:, None, None] * along)[:, :, :columns].reshape(n * k, columns)
            return np.asarray(self._gpu.get(scaled.T @ scaled))
        radial = (slopes * self._products) @ outputs
        scaled = added.sqrt()[:, None] * slopes
        matrix = (scaled.T @ scaled) * (outputs @ outputs.T)
        mixed = slopes * (outputs @ (added[:, None] * radial).T)
        matrix = matrix - mixed - mixed.T
        matrix.diagonal().add_(added * (radial**2).sum(dim=1))
        return np.asarray(self._gpu.get(some.T @ (matrix @ some)))

    def explained(self, penalty: Matrix) -> Callable[[Matrix], Matrix] | None:
        """Return what tells how much of a variance is known. Cost: O(n³/3), then O(n²) for each input."""
        gpu, made = self._gpu, factor(self._matrix, self._gpu.put(penalty))
        if made is None:
            return None
        lower = made.lower

        def known(others: Matrix) -> Matrix:
            cross = cross_of(self._side, Side.of(gpu.put(others), self._kernel), self._kernel)
            return np.asarray(gpu.get((torch.linalg.solve_triangular(lower, cross, upper=False) ** 2).sum(dim=0)))

        return known
