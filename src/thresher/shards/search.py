"""A shard that finds who fires by a threshold search: the paper's three operations, init, update and query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort, Index, ShardMoved, ShardStarted
from thresher.model.firing import Firing, Pattern
from thresher.model.network import NetworkSettings
from thresher.model.weights import Weights

__all__ = ["SearchShard"]


class SearchShard:
    """A slice of neurons with its weights, its firing pattern and an index."""

    def __init__(self, settings: NetworkSettings, weights: Weights, neurons: range, *, index: Index) -> None:
        self._settings, self._neurons, self._index = settings, neurons, index
        self._weights = self._tried = weights
        self._inputs = len(weights.inputs)

    def start(self, first_step: NDArray[np.float64] | None, *, expected: float) -> ShardStarted:
        """Make the start weights, find who fires, take the first step. Cost: that of ``init`` and a move."""
        self._index.init(self._weights, self._neurons)
        self._found = self._firing = self._index.firing(self._settings.shift)
        effort = self._index.spent._replace(firing=self._firing.pattern.pairs)
        before = self._outputs(self._firing)
        if first_step is None:
            return ShardStarted(before, before, effort, Effort())
        moved = self.move(first_step)
        return ShardStarted(before, self._outputs(self._found), effort, moved.effort)

    def move(self, step: NDArray[np.float64]) -> ShardMoved:
        """Move every neuron that fires, let the index know, and ask it who fires now."""
        before, pattern, shift = self._index.spent, self._firing.pattern, self._settings.shift
        self._tried = self._weights.moved(pattern, step, scale=self._settings.scale)
        self._index.update(self._tried, pattern.neurons)
        self._found = self._index.firing(shift)
        on, off = self._found.pattern.without(pattern), pattern.without(self._found.pattern)
        begun = self._active(self._found)[on]
        ceased = self._signs(pattern)[off] * (shift - self._look(off))
        corrections = self._sum_by_input(self._found.pattern.inputs[on], begun)
        corrections += self._sum_by_input(pattern.inputs[off], ceased)
        spent = Effort(*(now - then for now, then in zip(self._index.spent, before, strict=True)))
        effort = spent._replace(
            looks=spent.looks + len(off),
            moved=len(pattern.neurons),
            flips=len(on) + len(off),
            firing=self._found.pattern.pairs,
        )
        return ShardMoved(corrections, effort)

    def linearise(self, counts: NDArray[np.int32] | None) -> None:
        """Make the current weights those that steps start from. Cost: O(pairs of neurons that flipped, squared)."""
        if counts is not None and self._found is not self._firing:
            then, now = self._firing.pattern, self._found.pattern
            places = [now.per_pair(now.neurons)[now.without(then)], then.per_pair(then.neurons)[then.without(now)]]
            changed = np.unique(np.concatenate(places))
            then.count_cofiring(changed, counts, sign=-1)
            now.count_cofiring(changed, counts, sign=1)
        self._weights, self._firing = self._tried, self._found

    def count_cofiring(self, counts: NDArray[np.int32]) -> None:
        """Add this shard's share of the co-firing counts to the lower triangle of ``counts`` (n, n)."""
        self._firing.pattern.count_cofiring(self._firing.pattern.neurons, counts, sign=1)

    def pattern(self) -> Pattern:
        """Return the firing pairs at the last ``linearise``. Cost: O(1)."""
        return self._firing.pattern

    def weights(self) -> Weights:
        """Return the weights at the last ``linearise``. Cost: O(1)."""
        return self._weights

    def are_ties(self, neurons: NDArray[np.int64], inputs: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which pairs lie on the threshold up to the rounding of float64. Cost: O(d) a pair."""
        shift = self._settings.shift
        return np.abs(self._weights.look(neurons, inputs) - shift) <= self._weights.look_rounding(neurons, near=shift)

    def _look(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        pattern = self._firing.pattern
        return self._tried.look(pattern.per_pair(pattern.neurons)[places], pattern.inputs[places])

    def _outputs(self, firing: Firing) -> NDArray[np.float64]:
        return self._sum_by_input(firing.pattern.inputs, self._active(firing))

    def _active(self, firing: Firing) -> NDArray[np.float64]:
        return self._signs(firing.pattern) * (firing.values - self._settings.shift)

    def _signs(self, pattern: Pattern) -> NDArray[np.float64]:
        return pattern.per_pair(self._settings.start.signs(pattern.neurons))

    def _sum_by_input(self, inputs: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(inputs, values, minlength=self._inputs).astype(np.float64)
