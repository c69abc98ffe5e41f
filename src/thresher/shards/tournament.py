"""The paper's data structure: for every input a tree over the neurons in which the larger pre-activation wins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort
from thresher.loops import trees
from thresher.model.firing import Firing, pattern_of_pairs
from thresher.model.network import row_blocks
from thresher.model.position import Position

__all__ = ["Tournament"]


class Tournament:
    """n flat max-trees over the pre-activations of m neurons (``thm:tree_ds``).

    Cost: ``init`` O(mnd); ``update`` O(n(d + log m)) per neuron; ``query`` O(K log m) for K answers; memory 2mn numbers
    of the working precision. Deviation: a pair closer to the threshold than the rounding of a working-precision product
    is looked at again in float64, so K counts those too; the test is ``>=`` at the leaf as it is inside the tree.
    """

    def __init__(self) -> None:
        self.spent = Effort()

    def init(self, position: Position, neurons: range) -> None:
        """Compute all pre-activations and build the trees. Cost: O(mnd)."""
        self._position, self._first, self._count = position, neurons.start, len(neurons)
        geometry = position.geometry
        self._nodes = np.empty((2 * self._count, len(geometry.inputs)), geometry.dtype)  # row 0 is no node
        self._guard = 0.0
        leaves = self._nodes[self._count :]
        for block in row_blocks(neurons.start, neurons.stop):
            self._write(block, leaves[block.start - self._first : block.stop - self._first])
        trees.build(self._nodes)
        self.spent = self.spent.plus(Effort(touches=self._nodes.size - self._nodes.shape[1]))

    def update(self, position: Position, neurons: NDArray[np.int64]) -> None:
        """Take the new weights of the listed neurons in all trees. Cost: O(n(d + log m)) per neuron, at most O(mn)."""
        self._position = position
        leaves = self._nodes[self._count :]
        for first in range(0, len(neurons), 1024):
            block = neurons[first : first + 1024]
            leaves[block - self._first] = self._write(block)
        touches = trees.climb(self._nodes, neurons - self._first)
        self.spent = self.spent.plus(Effort(touches=touches))

    def query(self, i: int, threshold: float) -> NDArray[np.int64]:
        """Return the neurons with <w_r, x_i> >= threshold, ascending. Cost: O(K log m) for K answers."""
        return self._query(i, threshold)[0]

    def firing(self, threshold: float) -> Firing:
        """Return the answers to all n queries as one pattern. Cost: O(K log m + K log K) for K answers in all."""
        answers = [self._query(i, threshold) for i in range(self._nodes.shape[1])]
        neurons = np.concatenate([found for found, _ in answers])
        values = np.concatenate([found for _, found in answers])
        inputs = np.repeat(np.arange(len(answers), dtype=np.int32), [len(found) for found, _ in answers])
        order = np.argsort(neurons, kind="stable")  # the inputs of each neuron stay ascending
        return Firing(pattern_of_pairs(neurons[order], inputs[order]), values[order])

    def _query(self, i: int, threshold: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        places, visits = trees.query(self._nodes, i, threshold - self._guard)
        values = self._nodes[self._count + places, i].astype(np.float64)
        neurons, inputs = places + self._first, np.full(len(places), i, np.int32)
        fires, looks = self._position.settle(neurons, inputs, values, threshold=threshold, guard=self._guard)
        self.spent = self.spent.plus(Effort(looks=looks, visits=visits))
        return neurons[fires], values[fires]

    def _write(
        self,
        neurons: range | NDArray[np.int64],
        out: NDArray[np.float32] | NDArray[np.float64] | None = None,
    ) -> NDArray[np.float32] | NDArray[np.float64]:
        values, guard = self._position.preactivations(neurons, out=out)
        self._guard = max(self._guard, guard)
        self.spent = self.spent.plus(Effort(looks=values.size))
        return values
