"""The preconditioner for many inputs: a low-rank factor of a matrix that is near, scaled to the diagonal of G."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank, random_pivots
from thresher.algebra.system import Apply, Vector
from thresher.checks import check_whole
from thresher.interfaces import Gram

__all__ = ["Near", "RandomPivots"]

_LEAST = 1e-3  # share of the diagonal that is left over at least: rounding of single precision must not show
_MOST_RANK = 2000


class Near(Protocol):
    """A matrix (n, n) with a constant diagonal, of which some columns are looked at: the limit kernel."""

    @property
    def diagonal(self) -> float:
        """Every entry of the diagonal."""

    def columns(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the columns of some rows (k,), as (k, n)."""


@dataclass(frozen=True, eq=False)
class RandomPivots:
    """Cholesky with random pivots of a matrix that is near G up to its diagonal; what it leaves over stays a diagonal.

    The limit kernel K is near the Gram matrix G of a wide network, up to the noise of its width; training makes more
    neurons fire on some inputs than on others. So S K S is taken for G, with S² = diag(G) / diag(K), and K for FᵀF, of
    low rank, plus the rest of its diagonal, which stands for the tail of the spectrum and for the noise. F is made
    once.

    Parameters
    ----------
    near : returns the matrix; called once
    rank : pivots at the most; None for a quarter of the inputs, 2000 at the most
    seed : of the pivots

    Cost: once r columns and O(nr²); then O(nr) for each product, and O(nr²) for each ``added`` that is not 0.
    """

    near: Callable[[], Near] = field(repr=False)
    rank: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rank is not None:
            check_whole(self.rank, "rank", least=1)

    @staticmethod
    def default_rank(inputs: int) -> int:
        """Return the rank for that many inputs."""
        return max(1, min(inputs // 4, _MOST_RANK))

    def prepare(self, gram: Gram, *, added: float | Vector, iteration: int) -> Apply:
        """Return the product with the inverse of the near matrix, scaled to the diagonal of G, and ``added``."""
        level = self._near.diagonal
        if level == 0:  # at such a shift no neuron fires: G is zero as well
            return lambda vector: vector
        diagonal = gram.diagonal()
        squares = np.where(diagonal > 0, diagonal, added) / level
        scale = np.sqrt(squares)
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)  # silent inputs cannot be reached
        apply = self._inverse if not np.any(added) else self._low.inverse(self._rest + added * inverse**2)
        return lambda vector: _by_row(inverse, apply(_by_row(inverse, vector)))

    @cached_property
    def _near(self) -> Near:
        return self.near()

    @cached_property
    def _low(self) -> LowRank:
        near = self._near
        size = near.columns(np.zeros(1, np.int64)).shape[1]
        rank = self.default_rank(size) if self.rank is None else self.rank
        made = random_pivots(np.full(size, near.diagonal), near.columns, rank=rank, seed=self.seed)
        return made._replace(left=0.0)  # the rest of the diagonal is kept entry by entry

    @cached_property
    def _rest(self) -> Vector:
        """What the factor leaves of the diagonal (n,)."""
        level, factor = self._near.diagonal, self._low.factor
        return np.maximum(level - np.einsum("rn,rn->n", factor, factor, dtype=np.float64), _LEAST * level)

    @cached_property
    def _inverse(self) -> Callable[[Any], Any]:
        return self._low.inverse(self._rest)


def _by_row(factors: Vector, vectors: Vector) -> Vector:
    return factors * vectors if vectors.ndim == 1 else factors[:, None] * vectors
