"""Cholesky with random pivots: a low-rank factor of a matrix of which only some columns are ever looked at.

A pivot is drawn with a probability in proportion to what is left of its diagonal entry (Chen, Epperly, Tropp and Webber
2024), in blocks. The factor F (r, n) has FᵀF below the matrix, close to it where the spectrum decays, and FᵀF
plus a diagonal is inverted at the cost of products with F: a preconditioner. What FᵀF leaves of the diagonal is part of
that diagonal: kernels of wide networks are rough, and a part of their trace is spread over all directions. With it
conjugate gradients take several times fewer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.parallel import blas_for_size, core_count, in_order

__all__ = ["LowRank", "draw_pivots", "inverse_root", "random_pivots"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Value = TypeVar("Value")
_BLOCK = 200  # pivots drawn at a time
_LIFT = 1e-5  # added to the diagonal of a block of pivots, relative to its mean: some may be all but equal
_ROWS = 2048  # rows at a time
_DONE = 1e-6  # share of the trace below which nothing is worth a pivot


class LowRank(NamedTuple):
    """A factor F (r, n) with FᵀF close to a matrix K, its pivots (r,), and the mean of the diagonal of K - FᵀF."""

    pivots: NDArray[np.int64]
    factor: Single
    left: float

    def inverse(self, added: float | Matrix, *, threads: int | None = None) -> Callable[[Matrix], Matrix]:
        """Return what nearly applies (K + added)⁻¹ to vectors (n,) or (n, k); ``added`` is (n,) or one number, above 0.

        It is the inverse of FᵀF + D, D being ``added`` and the mean of the diagonal that is left. With S = F D^(-1/2)
        that is D⁻¹ - D^(-1/2) Sᵀ (1 + S Sᵀ)⁻¹ S D^(-1/2). Products are in float32: meant for a preconditioner.

        Cost: O(nr²) and O(r³), then O(nr) per vector.
        """
        weights = 1 / (np.broadcast_to(np.asarray(added, np.float64), self.factor.shape[1:]) + self.left)
        return _Inverse(self.factor, weights, threads)


class _Inverse:
    def __init__(self, factor: Single, weights: Matrix, threads: int | None) -> None:
        def part(rows: slice) -> Matrix:  # in float64: what is small beside the largest must stay
            some = factor[:, rows].astype(np.float64)
            some *= np.sqrt(weights[rows])
            return np.asarray(some @ some.T, np.float64)

        core = np.eye(len(factor))
        for product in _by_rows(part, len(weights), threads):
            core += product
        self._triangle = _lower(core)
        self._factor, self._weights, self._threads = factor, weights[:, None], threads

    def __call__(self, vectors: Matrix) -> Matrix:
        columns = self._weights * vectors.reshape(len(self._weights), -1)
        short = columns.astype(np.float32)
        parts = _by_rows(lambda rows: self._factor[:, rows] @ short[rows], len(columns), self._threads)
        inner = np.zeros((len(self._factor), columns.shape[1]))
        for part in parts:
            inner += part
        inner = linalg.cho_solve((self._triangle, True), inner, overwrite_b=True, check_finite=False)
        back = inner.astype(np.float32)

        def subtract(rows: slice) -> None:
            columns[rows] -= self._weights[rows] * (self._factor[:, rows].T @ back)

        list(_by_rows(subtract, len(columns), self._threads))
        return columns.reshape(vectors.shape)


def _lower(core: Matrix) -> Matrix:
    """Return the Cholesky factor of a matrix, or of one a little larger where weights are too far apart for it."""
    for lift in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
        raised = core.copy()
        raised[np.diag_indices_from(raised)] *= 1 + lift
        lower, failed = linalg.lapack.dpotrf(raised, lower=1, clean=1, overwrite_a=1)
        if not failed:
            return np.asarray(lower)
    return np.diag(np.sqrt(core.diagonal()))


def draw_pivots(
    rng: np.random.Generator, rest: Matrix, pivots: NDArray[np.int64], *, rank: int, whole: float
) -> NDArray[np.int64]:
    """Return the next pivots (k,), drawn in proportion to what is left of the diagonal (n,); none when all is done.

    Nothing is left at ``pivots``, and nowhere less than nothing: ``rest`` is changed to that. ``whole`` is the trace.
    """
    if len(pivots) >= rank:
        return np.zeros(0, np.int64)
    rest[pivots] = 0.0
    np.maximum(rest, 0.0, out=rest)
    possible = min(_BLOCK, rank - len(pivots), int(np.count_nonzero(rest)))
    if not rest.sum() > _DONE * whole or not possible:
        return np.zeros(0, np.int64)
    return rng.choice(len(rest), possible, replace=False, p=rest / rest.sum())


def inverse_root(corner: Matrix) -> Single:
    """Return R (k, k) with Rᵀ R the inverse of a block of pivots: a positive matrix, which rounding may have spoilt."""
    corner = (corner + corner.T) / 2
    corner[np.diag_indices_from(corner)] += _LIFT * max(float(np.trace(corner)) / len(corner), _DONE)
    with blas_for_size(len(corner)):
        try:
            lower = linalg.cholesky(corner, lower=True, check_finite=False)
            root = linalg.solve_triangular(lower, np.eye(len(corner)), lower=True, check_finite=False)
        except linalg.LinAlgError:
            values, vectors = np.linalg.eigh(corner)
            root = (vectors / np.sqrt(np.maximum(values, values[-1] * _LIFT))).T
    return root.astype(np.float32)


def _by_rows(task: Callable[[slice], Value], n: int, threads: int | None) -> Iterator[Value]:
    """Yield what a task returns for blocks of n rows, in order; threads None for all cores.

    Threads of BLAS itself wait for work in a loop, and take the cores from whatever comes next.
    """
    blocks = [slice(first, first + _ROWS) for first in range(0, n, _ROWS)]
    return in_order(task, blocks, threads=min(core_count() if threads is None else threads, len(blocks)))


def random_pivots(
    diagonal: Matrix,
    columns: Callable[[NDArray[np.int64]], Single],
    *,
    rank: int,
    seed: int = 0,
    threads: int | None = None,
) -> LowRank:
    """Return a factor of at most this rank of a positive semi-definite matrix (n, n).

    ``columns`` returns the columns of some pivots (k,) as rows (k, n). Fewer pivots are taken where the trace is
    used up. Results do not depend on the threads, None for all cores. Cost: r columns, and O(nr²).
    """
    n = len(diagonal)
    rng, rank = np.random.default_rng(seed), min(rank, n)
    rest, whole = np.array(diagonal, np.float64), float(np.sum(diagonal))
    factor, pivots = np.zeros((rank, n), np.float32), np.zeros(0, np.int64)
    while len(drawn := draw_pivots(rng, rest, pivots, rank=rank, whole=whole)):
        done, block = len(pivots), columns(drawn)
        earlier = factor[:done, drawn].T.copy()

        def remove(rows: slice) -> None:
            block[:, rows] -= earlier @ factor[:done, rows]  # noqa: B023 (called before the next round)

        list(_by_rows(remove, n, threads))
        root = inverse_root(block[:, drawn].astype(np.float64))

        def add(rows: slice) -> None:
            new = root @ block[:, rows]  # noqa: B023
            factor[done : done + len(drawn), rows] = new  # noqa: B023
            rest[rows] -= np.einsum("kn,kn->n", new, new, dtype=np.float64)

        list(_by_rows(add, n, threads))
        pivots = np.concatenate([pivots, drawn])
    return LowRank(pivots, factor[: len(pivots)], float(np.maximum(rest, 0.0).mean()))
