"""What follows from the firing pairs of a shard alone, however they were found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import BrokenCertificate
from thresher.interfaces import JacobianSlice, ShardAudited, ShardStarted, Sketch
from thresher.loops.pairs.by_neuron import add_gram_product
from thresher.loops.rounding import FINE, NORM_TOLERANCE, of_margin, of_outputs
from thresher.model.firing import Pattern
from thresher.model.network import NetworkSettings, row_blocks
from thresher.model.position import Position
from thresher.model.weights import DenseWeights, Weights

__all__ = ["REMEDY", "PairShard", "wrong_pair"]

REMEDY = "This is a fault of thresher: please report it with the seed. index='scan' does without certificates."


def wrong_pair(neuron: int, i: int, *, fires: bool, count: int) -> BrokenCertificate:
    """Return the error for the first of some pairs that an audit finds otherwise than they are maintained."""
    verb = "fires" if fires else "does not fire"
    return BrokenCertificate(
        f"neuron {neuron} {verb} on input {i}, against what is maintained ({count} such pairs in its block). {REMEDY}"
    )


class PairShard:
    """The part of a shard that follows from its firing pairs, ``pattern()``, and its ``position()``."""

    SHARE, DENSE, ON_DEVICE = 1, False, False
    REMEDY = "Use a larger shift (fewer neurons fire), a smaller width or fewer inputs."

    _settings: NetworkSettings
    _inputs: NDArray[np.float64]
    _neurons: range
    _offsets: NDArray[np.float64] | None = None  # how far thresholds lie above the shift (n,); None: at it
    unit = 0.0  # roundoff of outputs that are sums over all neurons; flips alone change those of most kinds

    @staticmethod
    def require_device(facts: Any, outputs: int) -> None:
        """Refuse nothing: these shards live in the memory of the machine."""

    @staticmethod
    def block_memory(facts: Any) -> float:
        """Return about how many bytes a thread takes for a block of neurons."""
        return float(1024 * facts.inputs * facts.item)

    def start(self, first_step: NDArray[np.float64] | None, *, expected: float) -> ShardStarted:
        """Find which pairs fire at the start and take the first step, if any.

        ``expected`` is the drift that is to come, per square root of firing inputs.
        """
        return self.start_together([self], [first_step], expected=[expected])[0]

    @staticmethod
    def start_together(
        shards: Sequence[Any], first_steps: Sequence[NDArray[np.float64] | None], *, expected: Sequence[float]
    ) -> list[ShardStarted]:
        """Start shards of the same neurons, one per output: one after the other."""
        return [
            shard._start_alone(step, drift) for shard, step, drift in zip(shards, first_steps, expected, strict=True)
        ]

    def pattern(self) -> Pattern:
        """Return the firing pairs at the last ``linearise``."""
        raise NotImplementedError

    def position(self) -> Position:
        """Return the position at the last ``linearise``, where coefficients are kept."""
        raise NotImplementedError

    def weights(self) -> Weights | DenseWeights:
        """Return the weights at the last ``linearise``."""
        return self.position().weights

    def rounding(self) -> float:
        """Return a bound on what float64 loses in sums over coefficients."""
        return self.position().rounding

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return None: no certificates are kept."""
        return None

    def firing_counts(self) -> NDArray[np.int64]:
        """Return how many neurons fire on each input (n,). Cost: O(pairs)."""
        return np.bincount(self.pattern().inputs, minlength=len(self._inputs))

    def gram_times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return this shard's share of m G @ vector (n,), or (n, k). Cost: O(d) per firing pair and vector."""
        pattern, columns = self.pattern(), np.ascontiguousarray(vector).reshape(len(vector), -1)
        out = np.zeros(columns.shape)
        add_gram_product(pattern.bounds, pattern.inputs, self._inputs, columns, out)
        return out.reshape(vector.shape)

    def device_gram(self) -> Any:
        """Return nothing: the shard lives in this process."""

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return this shard's share of a sketch, (n, s); see the sketch for its cost."""
        settings, pattern = self._settings, self.pattern()
        signs = settings.start.signs(pattern.neurons)
        return sketch.gather(JacobianSlice(pattern, signs, self._inputs, settings.scale, settings.neurons))

    def audit(self) -> ShardAudited:
        """Compare all firing pairs with a full scan in float64; refuse what differs by more than ties.

        Cost: O(nd) per neuron.
        """
        pattern, weights, rounding = self.pattern(), self.weights(), self.rounding()
        settings, inputs = self._settings, self._inputs
        n, d = inputs.shape
        thresholds = settings.shift if self._offsets is None else settings.shift + self._offsets
        farthest = float(np.abs(thresholds).max())
        outputs, squares, firing, ties = np.zeros(n), np.zeros(n), np.zeros(n, np.int64), 0
        largest = rounding
        for block in row_blocks(self._neurons.start, self._neurons.stop):
            vectors = weights.vectors(block)
            values = vectors @ inputs.T
            values -= thresholds
            norms = np.linalg.norm(vectors, axis=1) * (1 + NORM_TOLERANCE)
            allowed = of_margin(d, FINE, norms, farthest) + rounding
            maintained = np.zeros(values.shape, np.bool_)
            first, last = np.searchsorted(pattern.neurons, (block.start, block.stop))
            part = pattern.slice(first, last)
            maintained[part.per_pair(part.neurons) - block.start, part.inputs] = True
            rows, columns = np.nonzero(maintained != (values >= 0))
            wrong = np.flatnonzero(np.abs(values[rows, columns]) > allowed[rows])
            if len(wrong):
                r, i = rows[wrong[0]], columns[wrong[0]]
                raise wrong_pair(block.start + r, i, fires=not maintained[r, i], count=len(wrong))
            ties += len(rows)
            outputs += settings.start.signs(np.arange(block.start, block.stop)) @ np.maximum(values, 0)
            squares += of_outputs(values, norms, d, farthest)
            firing += maintained.sum(axis=0)
            largest = max(largest, float(allowed.max(initial=0.0)))
        return ShardAudited(outputs, ties, firing, largest, (2.0 * self.unit) ** 2 * squares)
