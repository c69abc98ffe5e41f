"""The network of dense passes with Hadamard start rows: products with the start rows take additions alone.

Weights are not stored. A neuron has moved along the few inputs it ever fired on, so a pass makes the pre-activations of
the start anew, by a transform, and adds coefficients times rows of X Xᵀ. Where products with stored weights take less,
the network stores them and is a :class:`DenseNetwork`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.dense import BLOCK, DenseNetwork, Pairs, Vector
from benchmarks.pairs import collect_rotated, move_along
from thresher.loops.instructions.butterflies import TILE
from thresher.loops.instructions.places import EXTRA
from thresher.loops.pairs.by_neuron import materialise
from thresher.memory import require
from thresher.model.hadamard import Rotated
from thresher.theory import firing_probability

Kept = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]  # bounds, inputs, coefficients of a block
_IN_SUMS = 2  # multiplications of a matrix product that take as long as a level of a transform, or as a coefficient


def levels_of(rotated: Rotated) -> int:
    """Return the levels of the transform: how many additions a product takes."""
    return (rotated.tiles.shape[1] - 1).bit_length()


class HadamardNetwork(DenseNetwork):
    """Coefficients of the pairs that ever fired, or weights, whichever makes a pass cheaper."""

    def _make(self, *, memory: int | None, copies: int) -> None:
        usual = self.problem.size * firing_probability(self.settings.shift)
        self.rotated, self._kept = Rotated.of(self.problem.inputs, seed=self.settings.start.seed), list[Kept]()
        if not self._sums_pay(usual):
            super()._make(memory=memory, copies=copies)
            return
        require(
            int(16 * self.width * usual),
            budget=memory,
            what=f"coefficients of a network of width {self.width:,}",
            remedy="Use a smaller width.",
        )
        tiles, n = len(self.rotated.tiles), self.problem.size
        products = np.zeros((n, tiles * TILE), np.float32)
        products[:, :n] = self.problem.products
        self._strips = np.ascontiguousarray(products.reshape(n, tiles, TILE).transpose(1, 0, 2))
        nothing = np.empty(0, np.int32), np.empty(0, np.float32)
        self._kept = [(np.zeros(len(block) + 1, np.int64), *nothing) for block in self.blocks]

    def _sums_pay(self, coefficients: float) -> bool:
        """Return whether a transform and so many coefficients a neuron are cheaper than a product with d columns."""
        return _IN_SUMS * (levels_of(self.rotated) + coefficients) < self.problem.dimension

    def forward(self, rows: slice = slice(None)) -> tuple[Vector, Pairs]:
        """Return the outputs on the inputs in ``rows``, and which pairs fire.

        Cost: O(mn(log d + inputs moved along)).
        """
        if rows != slice(None):
            self._store_weights()
        if not self._kept:
            return super().forward(rows)
        n, (_, p, _), start = self.problem.size, self.rotated.tiles.shape, self.settings.start
        total, inputs = np.zeros((self.threads, n)), np.empty((self.threads, BLOCK * n), np.int32)
        rooms = [
            (
                *np.empty((2, BLOCK // p + 2, p), np.float32), *np.empty((2, p, TILE), np.float32),
                np.empty(p * TILE + EXTRA, np.uint32), np.empty(BLOCK * n, np.int64),
            )
            for _ in range(self.threads)
        ]  # fmt: skip

        def work(block: range, thread: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
            bounds = np.empty(len(block) + 1, np.int64)
            count = collect_rotated(
                np.uint64(start.seed), block.start, self.rotated.tiles, self._strips, self._kept[block.start // BLOCK],
                np.float32(self.settings.shift), self.factors[block.start : block.stop], total[thread], rooms[thread],
                bounds, inputs[thread],
            )  # fmt: skip
            return bounds, inputs[thread, :count].copy()

        found = self._each(work)
        return total.sum(axis=0), Pairs(found)

    def move(self, pairs: Pairs, step: Vector) -> None:
        """Put the weights at W - Jᵀ step. Cost: O(1) a pair that fires or ever fired."""
        if self._kept:
            fast = step.astype(np.float32)

            def work(block: range, thread: int) -> Kept:
                which, factors = block.start // BLOCK, self.factors[block.start : block.stop]
                moved: Kept = move_along(*pairs.blocks[which], factors, fast, self._kept[which])
                return moved

            self._kept = self._each(work)
            if not self._sums_pay(sum(len(inputs) for _, inputs, _ in self._kept) / self.width):
                self._store_weights()
        else:
            super().move(pairs, step)

    def _store_weights(self) -> None:
        """From now on be a network with stored weights."""
        kept, self._kept = self._kept, []
        if not kept:
            return
        self.weights = np.empty((self.width, self.problem.dimension), np.float32)

        def work(block: range, thread: int) -> None:
            start, neurons = self.settings.start.block(block.start, block.stop), np.arange(len(block))
            moved = materialise(neurons, start, neurons, *kept[block.start // BLOCK], self.problem.inputs)
            self.weights[block.start : block.stop] = moved

        self._each(work)
