"""Cholesky on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.algebra import Cholesky
from thresher.algebra.system import SINGULAR, System, Vector
from thresher.devices import find_device
from thresher.interfaces import Factor, Gram, Solution, SolveStatus

__all__ = ["DeviceCholesky"]


@dataclass(frozen=True)
class DeviceCholesky:
    """Factor the dense matrix on the GPU, in float64. What is singular to rounding is left to the processor.

    The matrix of a training on the GPU never leaves it. Cost: O(n³), and O(n²) for each right-hand side.
    """

    def prepare(self, gram: Gram, *, added: float | Vector = 0.0, iteration: int = 0) -> Factor:
        """Take the matrix, and factor it."""
        matrix = gram.device_matrix() if hasattr(gram, "device_matrix") else _moved(gram.dense())
        matrix.diagonal().add_(torch.as_tensor(added, dtype=torch.float64, device=matrix.device))
        lower, failed = torch.linalg.cholesky_ex(matrix)
        diagonal = lower.diagonal() ** 2
        if int(failed) or not float(diagonal.min()) > 100 * SINGULAR * float(diagonal.max()):
            return Cholesky().prepare(gram, added=added)
        return _Lower(System(gram, added), lower)


def _moved(matrix: NDArray[np.float64]) -> torch.Tensor:
    return torch.tensor(matrix, device=find_device("cuda"))


class _Lower:
    def __init__(self, system: System, lower: torch.Tensor) -> None:
        self._system, self._lower = system, lower

    def solve(self, rhs: Vector, *, x0: Vector | None = None) -> Solution:
        """Return the solution for right-hand side (n,). Cost: O(n²)."""
        right = torch.from_numpy(np.ascontiguousarray(rhs)).to(self._lower.device)
        value = torch.cholesky_solve(right[:, None], self._lower)[:, 0].cpu().numpy()
        rest = rhs - self._system.times(value)
        return self._system.solution(value, SolveStatus.SOLVED, rhs, rest)._replace(factored=True)
