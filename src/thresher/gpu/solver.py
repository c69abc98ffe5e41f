"""Cholesky on a GPU: a factor of tensors, and a solver of training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from thresher.algebra import Cholesky
from thresher.algebra.direct import Direct
from thresher.algebra.system import SINGULAR, System, Vector
from thresher.devices import find_device
from thresher.interfaces import Factor, Gram, Solution, SolveStatus

__all__ = ["DeviceCholesky", "Lower", "factor"]


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

    def solve(self, rhs: Vector, *, x0: Vector | None = None) -> Solution:
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
