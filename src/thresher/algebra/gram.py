"""A Gram operator from a matrix alone, and what damping means for any of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.interfaces import Gram, Sketch

__all__ = ["MatrixGram", "relative_damping"]


@dataclass(frozen=True)
class MatrixGram(Gram):
    """A Gram operator from a matrix (n, n) alone: of the limit kernel, say. It cannot be sketched."""

    matrix: NDArray[np.float64]

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return len(self.matrix)

    def dense(self) -> NDArray[np.float64]:
        """Return the matrix."""
        return self.matrix

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return matrix @ vector."""
        return self.matrix @ vector

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal."""
        return self.matrix.diagonal().copy()

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Refuse: there is no Jacobian behind this matrix."""
        raise InvalidInput("a matrix without its Jacobian cannot be sketched. Use Cholesky or ConjugateGradient().")


def relative_damping(gram: Gram, damping: float) -> float:
    """Return what ``damping`` times the mean diagonal of G is: the ``added`` of a solver. Cost: that of a diagonal."""
    return damping * float(gram.diagonal().mean()) if damping else 0.0
