"""Cholesky on a GPU: a factor of tensors, a solver of training, and random pivots with the inverse that they make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from thresher.algebra import Cholesky
from thresher.algebra.direct import Direct
from thresher.algebra.pivots import LowRank, draw_pivots, inverse_root
from thresher.algebra.system import SINGULAR, System, Vector
from thresher.devices import find_device
from thresher.interfaces import Factor, Gram, Solution, SolveStatus

__all__ = ["DeviceCholesky", "Inverse", "Lower", "factor", "random_pivots"]

_ROWS = 1 << 14  # rows at a time, where numbers are made longer
_LIFTS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)


class Lower:
    """A Cholesky factor (n, n) on a GPU."""

    def __init__(self, lower: Any) -> None:
        self.lower = lower

    def solve(self, rhs: Any) -> Any:
        """Return the inverse of the matrix times rhs (n, k). Cost: O(n²k)."""
        return torch.cholesky_solve(rhs, self.lower)


def factor(matrix: Any, added: Any) -> Lower | None:
    """Return the factor of a matrix (n, n), float64, and what is added to its diagonal; None if it is not positive.

    Cost: O(n³/3).
    """
    raised = matrix.clone()
    raised.diagonal().add_(added)
    lower, failed = torch.linalg.cholesky_ex(raised)
    return None if failed or not torch.isfinite(lower.diagonal()).all() else Lower(lower)


@dataclass(frozen=True)
class DeviceCholesky(Direct):
    """Factor the dense matrix on the GPU, in float64. What is singular to rounding is left to the processor.

    The matrix of a training on the GPU never leaves it. Cost: O(n³), and O(n²) for each right-hand side.
    """

    def prepare(self, gram: Gram, *, added: float | Vector = 0.0, iteration: int = 0) -> Factor:
        """Take the matrix, which is factored when that is first needed."""
        return _DeviceFactor(gram, added)


class _DeviceFactor:
    def __init__(self, gram: Gram, added: float | Vector) -> None:
        self._gram, self._added, self._system = gram, added, System(gram, added)

    def solve(self, rhs: Vector) -> Solution:
        """Return the solution for right-hand side (n,). Cost: O(n²)."""
        made = self._made
        if not isinstance(made, Lower):
            return made.solve(rhs)
        right = torch.from_numpy(np.ascontiguousarray(rhs)).to(made.lower.device)
        value = made.solve(right[:, None])[:, 0].cpu().numpy()
        rest = rhs - self._system.times(value)
        return self._system.solution(value, SolveStatus.SOLVED, rhs, rest)._replace(factored=True)

    @cached_property
    def _made(self) -> Lower | Factor:
        gram, device = self._gram, find_device("cuda")
        matrix = gram.device_matrix()
        matrix = torch.tensor(gram.dense(), device=device) if matrix is None else matrix
        made = factor(matrix, torch.as_tensor(self._added, dtype=torch.float64, device=device))
        if made is not None:
            diagonal = made.lower.diagonal() ** 2
            if float(diagonal.min()) > 100 * SINGULAR * float(diagonal.max()):
                return made
        return Cholesky().prepare(gram, added=self._added)


def random_pivots(matrix: Any, *, rank: int, seed: int) -> LowRank:
    """Return a factor (r, n), a tensor, of at most this rank of a :class:`~thresher.gpu.limit.GpuMatrix`.

    The pivots are those of the processor, as long as the rounding of a diagonal does not decide. Cost: O(nr(r + d)).
    """
    n, rng = len(matrix), np.random.default_rng(seed)
    pivots, rank = np.zeros(0, np.int64), min(rank, n)
    rest, whole = np.full(n, matrix.diagonal), n * matrix.diagonal
    factor = torch.zeros((rank, n), device=matrix.device)
    left = torch.as_tensor(rest, device=matrix.device)
    while len(drawn := draw_pivots(rng, rest, pivots, rank=rank, whole=whole)):
        done, places = len(pivots), torch.as_tensor(drawn, device=matrix.device)
        block = matrix.columns(drawn)
        block -= factor[:done, places].T @ factor[:done]
        root = inverse_root(block[:, places].double().cpu().numpy())
        new = torch.as_tensor(root, device=matrix.device) @ block
        factor[done : done + len(drawn)] = new
        left -= torch.linalg.vector_norm(new, dim=0, dtype=torch.float64) ** 2
        rest, pivots = left.cpu().numpy().copy(), np.concatenate([pivots, drawn])
    return LowRank(pivots, factor[: len(pivots)], float(np.maximum(rest, 0.0).mean()))


class Inverse:
    """What nearly applies (FᵀF + D)⁻¹ to columns (n, k), float64, for a factor F (r, n) and 1 / D (n,)."""

    def __init__(self, low: Any, weights: Any) -> None:
        core = torch.eye(len(low), dtype=torch.float64, device=low.device)
        for first in range(0, len(weights), _ROWS):
            rows = slice(first, first + _ROWS)
            some = low[:, rows].double() * weights[rows].sqrt()
            core += some @ some.T
        self._core, self._low, self._weights = _lower(core), low, weights[:, None]

    def __call__(self, vectors: Any) -> Any:
        """Return the inverse times vectors (n, k). Cost: O(nr) each, in single precision."""
        columns = self._weights * vectors
        inner = torch.cholesky_solve((self._low @ columns.float()).double(), self._core)
        return columns - self._weights * (self._low.T @ inner.float())


def _lower(core: Any) -> Any:
    """Return the Cholesky factor of a matrix, or of one a little larger where weights are too far apart for it."""
    for lift in _LIFTS:
        raised = core + torch.diag(lift * core.diagonal()) if lift else core
        lower, failed = torch.linalg.cholesky_ex(raised)
        if not failed:
            return lower
    return torch.diag(core.diagonal().sqrt())
