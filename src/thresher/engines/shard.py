"""A shard: a slice of neurons with its weights, its firing pattern and an index; the unit of threads and machines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort, Index, JacobianSlice, Sketch
from thresher.kernels.pairs import add_gram_product
from thresher.model.firing import Firing
from thresher.model.network import NetworkSettings
from thresher.model.weights import Weights

__all__ = ["Shard", "ShardMoved"]


class ShardMoved(NamedTuple):
    """A shard's share of the outputs (n,), without the factor 1/sqrt(m), and what it cost."""

    outputs: NDArray[np.float64]
    effort: Effort


class Shard:
    """A slice of neurons that can be asked for its share of every sum over neurons.

    ``move`` never forgets where it came from: weights and pattern of the last ``linearise`` stay until the next one, so
    a step can be tried again shorter, and an interrupt leaves a consistent network.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        inputs: NDArray[np.float64],
        neurons: range,
        *,
        index: Index,
        dtype: str,
    ) -> None:
        self._settings, self._neurons, self._index = settings, neurons, index
        self.weights = Weights.at_start(settings.start, inputs, dtype=dtype)
        self._tried = self.weights

    def start(self) -> ShardMoved:
        """Make the start weights and find who fires. Cost: O(n d) a neuron."""
        before = self._index.spent
        self._index.init(self.weights, self._neurons)
        self._found = self._firing = self._index.firing(self._settings.shift)
        return self._arrived(before)

    def linearise(self) -> None:
        """Make the current weights the point that steps start from. Cost: O(1)."""
        self.weights, self._firing = self._tried, self._found

    def move(self, step: NDArray[np.float64]) -> ShardMoved:
        """Move every neuron that fires by -Jᵀ step from the last ``linearise`` and find who fires now."""
        before = self._index.spent
        pattern = self._firing.pattern
        self._tried = self.weights.moved(pattern, step, scale=self._settings.scale)
        self._index.update(self._tried, pattern.neurons)
        self._found = self._index.firing(self._settings.shift)
        return self._arrived(before)

    def jacobian(self) -> JacobianSlice:
        """Return the implicit Jacobian at the last ``linearise``."""
        pattern, start = self._firing.pattern, self._settings.start
        return JacobianSlice(
            pattern,
            start.signs(pattern.neurons),
            self.weights.inputs,
            self._settings.scale,
            self._settings.width,
        )

    def count_cofiring(self) -> NDArray[np.int64]:
        """Return this shard's share of the co-firing counts C (n, n). Cost: O(n² + squared row lengths)."""
        return self._firing.pattern.count_cofiring(len(self.weights.inputs))

    def count_firing(self) -> NDArray[np.int64]:
        """Return how many of its neurons fire on each input (n,). Cost: O(n + pairs)."""
        return np.bincount(self._firing.pattern.inputs, minlength=len(self.weights.inputs))

    def gram_times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return this shard's share of (K o C) vector (n,). Cost: O(d) a firing pair."""
        out = np.zeros(len(vector))
        _, bounds, inputs = self._firing.pattern
        add_gram_product(bounds, inputs, self.weights.inputs, vector, out)
        return out

    def gather(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return this shard's share of a sketch of Jᵀ, (n, s)."""
        return sketch.gather(self.jacobian())

    def _arrived(self, before: Effort) -> ShardMoved:
        firing: Firing = self._found
        pattern = firing.pattern
        spent = Effort(*(now - then for now, then in zip(self._index.spent, before, strict=True)))
        effort = spent._replace(
            moved=len(self._firing.pattern.neurons) if self._tried is not self.weights else 0,
            flips=self._firing.pattern.flips_to(pattern),
            firing=pattern.pairs,
        )
        signs = np.repeat(self._settings.start.signs(pattern.neurons), np.diff(pattern.bounds))
        active = signs * (firing.values - self._settings.shift)
        outputs = np.bincount(pattern.inputs, active, minlength=len(self.weights.inputs)).astype(np.float64)
        return ShardMoved(outputs, effort)
