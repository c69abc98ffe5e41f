"""Cholesky with random pivots on a GPU, and the inverse it makes: ``algebra/pivots.py`` with tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from thresher.algebra.pivots import LowRank, draw_pivots, inverse_root

__all__ = ["Inverse", "random_pivots"]

_ROWS = 1 << 14  # rows at a time, where numbers are made longer
_LIFTS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)


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
