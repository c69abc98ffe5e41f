"""Shards that find firing pairs by a threshold search: the paper's three operations, init, update and query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort, Index, ShardMoved, ShardStarted
from thresher.model.firing import Firing, Pattern
from thresher.model.position import Position
from thresher.shards.pairs import PairShard
from thresher.shards.recipe import Recipe
from thresher.shards.scan import Scan
from thresher.shards.tournament import Tournament

__all__ = ["ScanShard", "SearchShard", "TournamentShard"]


class SearchShard(PairShard):
    """A slice of neurons with its position, its firing pattern and an index."""

    INDEX: type[Index]

    def __init__(self, recipe: Recipe, neurons: range) -> None:
        self._settings, self._inputs, self._neurons = recipe.settings, recipe.inputs, neurons
        self._offsets = recipe.offsets
        self._position = self._tried = Position.at_start(recipe.settings.start, recipe.geometry)
        self._index = self.INDEX()

    @staticmethod
    def memory(facts: Any) -> float:
        """Return about how many bytes a network and its shards take: four copies of the coefficients."""
        return float(4 * facts.weights)

    def _start_alone(self, first_step: NDArray[np.float64] | None, expected: float) -> ShardStarted:
        """Make the start weights, find which pairs fire, take the first step. Cost: that of ``init`` and a move."""
        self._index.init(self._position, self._neurons)
        self._found = self._firing = self._index.firing(self._settings.shift)
        effort = self._index.spent._replace(firing=self._firing.pattern.pairs)
        before = self._outputs(self._firing)
        if first_step is None:
            return ShardStarted(before, before, effort, Effort())
        moved = self.move(first_step)
        return ShardStarted(before, self._outputs(self._found), effort, moved.effort)

    def move(self, step: NDArray[np.float64]) -> ShardMoved:
        """Move every neuron that fires; update the index and query it."""
        before, pattern, shift = self._index.spent, self._firing.pattern, self._settings.shift
        self._tried = self._position.moved(pattern, step, scale=self._settings.scale)
        moved = pattern.neurons
        if self._last_moved is not None:
            moved = np.union1d(moved, self._last_moved)
        self._last_moved = moved
        self._index.update(self._tried, moved)
        self._found = self._index.firing(shift)
        on, off = self._found.pattern.without(pattern), pattern.without(self._found.pattern)
        begun = self._signs(self._found.pattern)[on] * (self._exact(self._found.pattern, on) - shift)
        ceased = self._signs(pattern)[off] * (shift - self._exact(pattern, off))
        corrections = self._sum_by_input(self._found.pattern.inputs[on], begun)
        corrections += self._sum_by_input(pattern.inputs[off], ceased)
        spent = Effort(*(now - then for now, then in zip(self._index.spent, before, strict=True)))
        effort = spent._replace(
            looks=spent.looks + len(on) + len(off),
            moved=len(moved),
            flips=len(on) + len(off),
            firing=self._found.pattern.pairs,
        )
        return ShardMoved(corrections, effort)

    _last_moved: NDArray[np.int64] | None = None  # by a step that was tried since the last linearise

    def linearise(self, counts: NDArray[np.int32] | None) -> None:
        """Make the current weights those that steps start from.

        Cost: O(1); with counts the squared number of firing inputs, per neuron that flipped.
        """
        if counts is not None and self._found is not self._firing:
            then, now = self._firing.pattern, self._found.pattern
            places = [now.per_pair(now.neurons)[now.without(then)], then.per_pair(then.neurons)[then.without(now)]]
            changed = np.unique(np.concatenate(places))
            then.count_cofiring(changed, counts, sign=-1)
            now.count_cofiring(changed, counts, sign=1)
        self._position, self._firing, self._last_moved = self._tried, self._found, None

    def add_counts(self, counts: NDArray[np.int32]) -> None:
        """Add this shard's share of the co-firing counts to the lower triangle of ``counts`` (n, n)."""
        self._firing.pattern.count_cofiring(self._firing.pattern.neurons, counts, sign=1)

    def pattern(self) -> Pattern:
        """Return the firing pairs at the last ``linearise``. Cost: O(1)."""
        return self._firing.pattern

    def position(self) -> Position:
        """Return the position at the last ``linearise``. Cost: O(1)."""
        return self._position

    def _exact(self, pattern: Pattern, places: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._tried.exact(pattern.per_pair(pattern.neurons)[places], pattern.inputs[places])

    def _outputs(self, firing: Firing) -> NDArray[np.float64]:
        active = self._signs(firing.pattern) * (firing.values - self._settings.shift)
        return self._sum_by_input(firing.pattern.inputs, active)

    def _signs(self, pattern: Pattern) -> NDArray[np.float64]:
        return pattern.per_pair(self._settings.start.signs(pattern.neurons))

    def _sum_by_input(self, inputs: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(inputs, values, minlength=len(self._inputs)).astype(np.float64)


class ScanShard(SearchShard):
    """Looks at every pair in every step: the oracle."""

    INDEX = Scan


class TournamentShard(SearchShard):
    """The paper's trees."""

    INDEX = Tournament
    REMEDY = "Use index='certified', a smaller width or fewer inputs."

    @staticmethod
    def memory(facts: Any) -> float:
        """Return about how many bytes a network and its shards take: trees, and copies of the coefficients."""
        return float(2 * facts.neurons * facts.inputs * facts.item + 4 * facts.weights)
