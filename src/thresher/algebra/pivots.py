"""Cholesky with random pivots: a low-rank factor of a matrix of which only some columns are ever looked at.

A pivot is drawn with a probability in proportion to what is left of its diagonal entry (Chen, Epperly, Tropp and Webber
2024), in blocks. The factor F (r, n) has FᵀF below the matrix, close to it where the spectrum decays, and FᵀF
plus a diagonal is inverted at the cost of products with F: a preconditioner. What FᵀF leaves of the diagonal is part of
that diagonal: kernels of wide networks are rough, and a tenth of their trace is spread over all directions. With it
ten steps of conjugate gradients do what takes a hundred without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.parallel import blas_for_size

__all__ = ["LowRank", "random_pivots"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_BLOCK = 200  # pivots drawn at a time
_LIFT = 1e-5  # added to the diagonal of a block of pivots, relative to its mean: some may be all but equal
_ROWS = 4096  # rows at a time
_DONE = 1e-6  # share of the trace below which nothing is worth a pivot


class LowRank(NamedTuple):
    """A factor F (r, n) with FᵀF close to a matrix K, its pivots (r,), and the mean of the diagonal of K - FᵀF."""

    pivots: NDArray[np.int64]
    factor: Single
    left: float

    def inverse(self, added: float | Matrix) -> Callable[[Matrix], Matrix]:
        """Return what nearly applies (K + added)⁻¹ to vectors (n,) or (n, k); ``added`` is (n,) or one number, above 0.

        It is the inverse of FᵀF + D, D being ``added`` and the mean of the diagonal that is left. With S = F D^(-1/2)
        that is D⁻¹ - D^(-1/2) Sᵀ (1 + S Sᵀ)⁻¹ S D^(-1/2). Products are in float32: meant for a preconditioner.

        Cost: O(nr²) and O(r³), then O(nr) per vector.
        """
        weights = 1 / (np.broadcast_to(np.asarray(added, np.float64), self.factor.shape[1:]) + self.left)
        return _Inverse(self.factor, weights)


class _Inverse:
    def __init__(self, factor: Single, weights: Matrix) -> None:
        core = np.eye(len(factor))
        for first in range(0, len(weights), _ROWS):  # in float64: what is small beside the largest must stay
            some = factor[:, first : first + _ROWS].astype(np.float64)
            some *= np.sqrt(weights[first : first + _ROWS])
            core += some @ some.T
        self._triangle = linalg.cholesky(core, lower=True, overwrite_a=True, check_finite=False)
        self._factor, self._weights = factor, weights[:, None]

    def __call__(self, vectors: Matrix) -> Matrix:
        columns = self._weights * vectors.reshape(len(self._weights), -1)
        inner = (self._factor @ columns.astype(np.float32)).astype(np.float64)
        inner = linalg.cho_solve((self._triangle, True), inner, overwrite_b=True, check_finite=False)
        columns -= self._weights * (self._factor.T @ inner.astype(np.float32))
        return columns.reshape(vectors.shape)


def random_pivots(
    diagonal: Matrix, columns: Callable[[NDArray[np.int64]], Single], *, rank: int, seed: int = 0
) -> LowRank:
    """Return a factor of at most this rank of a positive semi-definite matrix (n, n).

    ``columns`` returns the columns of some pivots (k,) as rows (k, n). Fewer pivots are taken where the trace is
    used up. Cost: r columns, and O(nr²).
    """
    n = len(diagonal)
    rng, rank = np.random.default_rng(seed), min(rank, n)
    rest, whole = np.array(diagonal, np.float64), float(np.sum(diagonal))
    factor, pivots = np.zeros((rank, n), np.float32), np.zeros(0, np.int64)
    while len(pivots) < rank:
        rest[pivots] = 0.0
        np.maximum(rest, 0.0, out=rest)
        done, possible = len(pivots), int(np.count_nonzero(rest))
        if not rest.sum() > _DONE * whole or not possible:
            break
        drawn = rng.choice(n, min(_BLOCK, rank - done, possible), replace=False, p=rest / rest.sum())
        block = columns(drawn)
        block -= factor[:done, drawn].T @ factor[:done]
        corner = block[:, drawn].astype(np.float64)
        corner = (corner + corner.T) / 2
        corner[np.diag_indices_from(corner)] += _LIFT * max(float(np.trace(corner)) / len(corner), _DONE)
        with blas_for_size(len(corner)):
            values, vectors = np.linalg.eigh(corner)
            root = vectors / np.sqrt(np.maximum(values, values[-1] * _LIFT))
        new = factor[done : done + len(drawn)]
        np.matmul(root.T.astype(np.float32), block, out=new)
        rest -= np.einsum("kn,kn->n", new, new, dtype=np.float64)
        pivots = np.concatenate([pivots, drawn])
    return LowRank(pivots, factor[: len(pivots)], float(np.maximum(rest, 0.0).mean()))
