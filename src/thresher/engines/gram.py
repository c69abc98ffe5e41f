"""The Gram operator of an engine: sums over shards, or the matrix once it has been formed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import JacobianSlice, Sketch
from thresher.model.firing import Pattern
from thresher.shards import Recipe

__all__ = ["ShardGram"]


class ShardGram:
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
        lower = self._counts()
        both = lower + np.tril(lower, -1).T
        return self._recipe.geometry.products * both / self._recipe.settings.width

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return G @ vector (n,). Cost: O(d) per firing pair, or O(n²) once the matrix has been formed."""
        if "_dense" in self.__dict__:
            return self._dense @ vector
        return self._total("gram_times", vector) / self._recipe.settings.width

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal of G (n,). Cost: O(pairs), or O(n) once the matrix has been formed."""
        if "_dense" in self.__dict__:
            return self._dense.diagonal().copy()
        X = self._recipe.inputs
        return np.einsum("nd,nd->n", X, X) * self._total("firing_counts") / self._recipe.settings.width

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n); see the sketch for its cost."""
        settings = self._recipe.settings
        empty = Pattern(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32))
        piece = JacobianSlice(empty, np.empty(0), self._recipe.inputs, settings.scale, settings.width)
        return sketch.finish(self._total("sketch", sketch), piece)
