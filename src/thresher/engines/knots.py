"""Networks with any piecewise linear activation: the engine of a ReLU network on inputs at knots.

What is kept, searched, certified and audited is that of ``model/activations/knots.py``. Outputs, Gram matrix and sketch
are sums over knots of what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from thresher.engines.engine import ShardEngine, start_shards
from thresher.engines.gram import ShardGram
from thresher.errors import BrokenCertificate
from thresher.interfaces import Audit, Executor, Gram, Moved, Progress, Sketch, Started
from thresher.model.activations import curve_of
from thresher.model.activations.knots import Knots
from thresher.model.firing import Pattern
from thresher.model.network import row_blocks
from thresher.model.weights import DenseWeights, Weights
from thresher.shards import Recipe
from thresher.shards.pairs import REMEDY

__all__ = ["KnotEngine", "start_at_knots"]

Matrix = NDArray[np.float64]


class KnotGram(Gram):
    """G = J Jᵀ of a network with knots, from the ReLU network's G."""

    def __init__(self, gram: ShardGram, firing: NDArray[np.int64], recipe: Recipe) -> None:
        assert recipe.knots is not None
        self._gram, self._knots, self._width, self._firing = gram, recipe.knots, recipe.settings.width, firing

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return len(self._knots.X)

    def dense(self) -> Matrix:
        """Return the matrix (n, n), from exact co-firing counts. Cost: O(K²n²), and once the counting."""
        return self._dense

    @cached_property
    def _dense(self) -> Matrix:
        return self._knots.gather(self._knots.gather(self._gram.dense()).T)

    def times(self, vector: Matrix) -> Matrix:
        """Return G @ vector, (n,) or (n, k). Cost: O(Kd) per firing pair, or O(K²n²) once the matrix was formed."""
        if "_dense" in self.__dict__:
            return self._dense @ vector
        return self._knots.gather(self._gram.times(self._knots.spread(vector)))

    def diagonal(self) -> Matrix:
        """Return the diagonal of G (n,). Cost: O(Kn)."""
        X = self._knots.X
        return np.einsum("nd,nd->n", X, X) * self._knots.squares(self._firing) / self._width

    def sketch(self, sketch: Sketch) -> Matrix:
        """Return S Jᵀ (s, n); see the sketch for its cost."""
        return self._knots.gather(self._gram.sketch(sketch).T).T


class KnotEngine:
    """The neurons of one output of a network with knots, by an engine of the ReLU network at its knots.

    Parameters
    ----------
    engine : of the ReLU network
    recipe : that its shards are made from
    outputs : of the ReLU network at the start (K n,)
    """

    def __init__(self, engine: ShardEngine, recipe: Recipe, outputs: Matrix) -> None:
        knots = recipe.knots
        assert knots is not None
        self._engine, self._recipe, self._knots = engine, recipe, knots
        self._scale, self._offset = recipe.settings.scale, recipe.settings.offset()
        self._gram: Callable[[], KnotGram | None] = lambda: None
        self.outputs = self._outputs = self._reached = self._of(outputs)

    def begin(self, outputs: Matrix) -> Matrix:
        """Stand where a first step has led that was taken within the start, at outputs (K n,); return those (n,)."""
        self._reached = self._of(outputs)
        return self._reached

    def linearise(self) -> Gram:
        """Make the current weights the point that steps start from, and return the Gram operator there."""
        self._engine.linearise()
        self._outputs, self._gram = self._reached, lambda: None
        return self.gram()

    def gram(self) -> Gram:
        """Return the Gram operator at the last ``linearise`` or the start. Cost: O(pairs), once."""
        gram = self._gram()
        if gram is None:
            gram = KnotGram(self._engine.gram(), self._engine.firing_counts(), self._recipe)
            self._gram = ref(gram)
        return gram

    def move(self, step: Matrix) -> Moved:
        """Put the neurons at D <- D + Jᵀ step from the last ``linearise``; may be called again to retreat."""
        outputs, effort = self._engine.move(self._knots.spread(step))
        self._reached = self._of(outputs)
        return Moved(self._reached, effort)

    def weights(self) -> Weights | DenseWeights:
        """Return the weights at the last ``linearise`` for all neurons. Cost: O(pairs), or O(md) if dense."""
        return _on_inputs(self._engine.weights(), self._knots)

    def drifts(self) -> tuple[Matrix, Matrix] | None:
        """Return drift and band (k,) of the neurons with certificates; None if there are none."""
        return self._engine.drifts()

    def audit(self) -> Audit:
        """Scan every pair at every knot, then all neurons by the activation itself; compare with what is maintained.

        Cost: O(Kmnd).
        """
        audit, settings, X = self._engine.audit(), self._recipe.settings, self._knots.X
        curve, weights, found = curve_of(settings.activation, settings.shift), self._engine.weights(), np.zeros(len(X))
        largest = np.zeros(len(X))
        for block in row_blocks(0, settings.neurons):
            values = weights.vectors(block) @ X.T
            found += settings.start.signs(np.arange(block.start, block.stop)) @ curve(values)
            largest += np.square(self._knots.pieces.size(values)).sum(axis=0)  # what cancels in an activation counts
        allowed = 1e-5 if self._recipe.dtype == "float32" else 1e-9
        error = np.abs(self._outputs - self._scale * found) / (1 + self._scale * np.sqrt(largest).max())
        worst = int(error.argmax())
        if not error[worst] <= allowed:
            raise BrokenCertificate(f"the output on input {worst} is not that of the activation. {REMEDY}")
        return audit._replace(error=max(audit.error, float(error[worst])))

    def traffic(self) -> dict[str, float]:
        """Return bytes and seconds of what has travelled since the last time, by name; empty within one process."""
        return self._engine.traffic()

    def finish(self) -> Weights | DenseWeights:
        """Return the weights and forget the rest: what was returned stays valid, nothing else may be called."""
        return _on_inputs(self._engine.finish(), self._knots)

    def _of(self, outputs: Matrix) -> Matrix:
        return self._knots.gather(outputs) + self._offset


def start_at_knots(
    recipe: Recipe,
    executor: Executor,
    progress: Progress,
    *,
    ranges: Sequence[range],
    sizes: Sequence[Matrix],
    first_steps: Sequence[Matrix | None],
) -> list[tuple[KnotEngine, Started]]:
    """Start one engine per output, as ``start_shards`` does, at knots; sizes and steps are of the inputs."""
    knots = recipe.knots
    assert knots is not None
    started = start_shards(
        recipe, executor, progress, ranges=ranges, sizes=[knots.spread(size) for size in sizes],
        first_steps=[None if step is None else knots.spread(step) for step in first_steps],
    )  # fmt: skip
    found = []
    for engine, (before, after) in started:
        made = KnotEngine(engine, recipe, before.outputs)
        before = before._replace(outputs=made.outputs)
        if after is not None:
            after = after._replace(outputs=made.begin(after.outputs))
        found.append((made, Started(before, after)))
    return found


def _on_inputs(weights: Weights | DenseWeights, knots: Knots) -> Weights | DenseWeights:
    """Return weights whose coefficients are on the inputs, not on inputs at knots. Cost: O(pairs)."""
    if isinstance(weights, DenseWeights):
        return weights
    (neurons, bounds, places), n = weights.support, len(knots.X)
    sides = np.array(knots.pieces.sides, np.float64)
    values = sides[places // n] * weights.coefficients
    keys = np.repeat(np.arange(len(neurons)), np.diff(bounds)) * n + places % n
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    summed = np.add.reduceat(values[order], first) if len(first) else values[:0]
    found = keys[order][first]
    ends = np.searchsorted(found, np.arange(len(neurons) + 1) * n)
    support = Pattern(neurons, ends.astype(np.int64), (found % n).astype(np.int32))
    return weights._replace(inputs=knots.X, support=support, coefficients=summed)
