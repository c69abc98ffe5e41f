"""The Gram operator of an engine: sums over shards, or the matrix once it has been formed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Gram, JacobianSlice, Shard, Sketch
from thresher.model.firing import Pattern
from thresher.parallel import core_count, in_order
from thresher.shards import Recipe

__all__ = ["ShardGram"]

_TILE = 256  # rows of the matrix that are made at a time
_ABOVE = ~np.tri(_TILE, dtype=np.bool_)  # the diagonal of a tile


class ShardGram(Gram):
    """G = (X Xᵀ) o C / m at an engine's point of linearisation; C counts the neurons that fire on both of two inputs.

    Valid until the engine's next ``linearise``.

    Parameters
    ----------
    recipe : of the shards
    total : returns the sum over shards of what a method returns
    counts : returns C (n, n), lower triangle
    """

    def __init__(
        self, recipe: Recipe, total: Callable[..., NDArray[Any]], counts: Callable[[], NDArray[np.int32]]
    ) -> None:
        self._recipe, self._total, self._counts = recipe, total, counts

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return len(self._recipe.inputs)

    def dense(self) -> NDArray[np.float64]:
        """Return the matrix (n, n), from exact co-firing counts. Cost: O(n²), and once the counting."""
        return self._dense

    @cached_property
    def _dense(self) -> NDArray[np.float64]:
        """From tiles of rows, up to the diagonal: no other array of n² numbers."""
        counts, geometry, n = self._counts(), self._recipe.geometry, self.size
        gram, X = np.empty((n, n)), self._recipe.inputs

        def tile(row: int) -> None:
            last = min(row + _TILE, n)
            inner = geometry.products[row:last, :last] if geometry.products.size else X[row:last] @ X[:last].T
            done = np.multiply(counts[row:last, :last], inner, out=gram[row:last, :last])
            done /= self._recipe.settings.width
            corner = done[:, row:]
            np.copyto(corner, corner.T.copy(), where=_ABOVE[: last - row, : last - row])
            gram[:row, row:last] = done[:, :row].T

        list(in_order(tile, range(0, n, _TILE), threads=core_count()))
        return gram

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return G @ vector, (n,) or (n, k). Cost: O(d) per firing pair, or O(n²) once the matrix has been formed."""
        if "_dense" in self.__dict__:
            return self._dense @ vector
        return self._total(Shard.gram_times, vector) / self._recipe.settings.width

    def device_matrix(self) -> Any:
        """Return the matrix (n, n) as a tensor on the GPU, where the shards are there; None elsewhere. Cost: O(n²)."""
        if not self._recipe.kind.ON_DEVICE:
            return None
        return self._total(Shard.device_gram) / self._recipe.settings.width

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal of G (n,). Cost: O(pairs), or O(n) once the matrix has been formed."""
        if "_dense" in self.__dict__:
            return self._dense.diagonal().copy()
        X = self._recipe.inputs
        return np.einsum("nd,nd->n", X, X) * self._total(Shard.firing_counts) / self._recipe.settings.width

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n); see the sketch for its cost."""
        settings = self._recipe.settings
        empty = Pattern(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32))
        piece = JacobianSlice(empty, np.empty(0), self._recipe.inputs, settings.scale, settings.neurons)
        return sketch.finish(self._total(Shard.sketch, sketch), piece)
