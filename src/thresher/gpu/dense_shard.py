"""A shard in which most neurons move, on a GPU: ``shards/dense.py`` with tensors.

What was added to each neuron is stored in single precision; everything else is in double precision, which the device
has in plenty: no pair has to be looked at twice, and the outputs of twins cancel as they should.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.devices import device_bytes, find_device
from thresher.gpu.gram import cofiring, start_rows
from thresher.interfaces import Effort, ShardMoved, ShardStarted
from thresher.memory import require
from thresher.model.firing import Pattern, pattern_of_pairs
from thresher.model.weights import DenseWeights
from thresher.shards.pairs import PairShard
from thresher.shards.recipe import Recipe

__all__ = ["DenseDeviceShard"]

Matrix = NDArray[np.float64]
_BLOCK = 1 << 26  # pairs in a block: rows of neurons times inputs, at most
_FACTORED = 20_000  # inputs at most whose matrix in double precision is whole, to be factored


class DenseDeviceShard(PairShard):
    """A slice of neurons in dense blocks. Memory: (neurons, d) numbers and (neurons, n) bytes, twice during a move."""

    SHARE, DENSE, ON_DEVICE = 0, True, True
    REMEDY = "Use a smaller width or fewer inputs."

    def __init__(self, recipe: Recipe, neurons: range) -> None:
        self._settings, self._inputs, self._neurons = recipe.settings, recipe.inputs, neurons
        start, device = recipe.settings.start, find_device("cuda")
        self._device, self._copies = device, start.copies
        self._X = torch.from_numpy(np.ascontiguousarray(recipe.inputs)).to(device)
        self._start: Any = None  # rows (neurons, d) of the start, one for two twins; all outputs share them
        self._signs = torch.from_numpy(start.signs(np.arange(neurons.start, neurons.stop))).to(device)
        self._moved = torch.zeros((len(neurons), start.dimension), device=device)
        self._fires: Any = None  # (neurons, n) of bool, since the start
        self._share = np.zeros(len(recipe.inputs))  # of the outputs at the last linearise
        self._counts: Any = None  # co-firing counts (n, n) once they were asked for
        self._gram: Any = None  # what they make of the products of inputs
        self._linearised = True

    @staticmethod
    def memory(facts: Any) -> float:
        """Return about how many bytes of the computer's own memory the network takes when it leaves the device."""
        return float(2 * facts.neurons * facts.item * facts.dimension)

    @staticmethod
    def block_memory(facts: Any) -> float:
        """Return 0: blocks are on the device."""
        return 0.0

    @staticmethod
    def require_device(facts: Any, outputs: int) -> None:
        """Refuse, before any work, what does not fit into the free memory of the device."""
        matrices = 16 * facts.inputs**2 + 24 * min(facts.inputs, _FACTORED) ** 2
        each = facts.neurons * (2 * facts.inputs + 12 * facts.dimension) + matrices
        require(
            outputs * each + 40 * min(_BLOCK, facts.neurons * facts.inputs),
            budget=device_bytes(find_device("cuda")),
            what=f"training {facts.width:,} neurons on {facts.inputs:,} inputs on the GPU",
            remedy="Use a smaller width or fewer inputs, or device='cpu'.",
        )

    @staticmethod
    def start_together(
        shards: Sequence[DenseDeviceShard], first_steps: Sequence[Matrix | None], *, expected: Sequence[float]
    ) -> list[ShardStarted]:
        """Find which pairs fire at the start, once for all outputs, and take first steps. Cost: O(nd) per neuron."""
        leader = shards[0]
        leader._start = leader._start_rows()
        fires, before = leader._look(leader._moved)
        effort, found = Effort(looks=fires.numel(), firing=int(fires.sum())), []
        for shard, step in zip(shards, first_steps, strict=True):
            shard._start, shard._fires, shard._share = leader._start, fires, before  # replaced, not changed
            moved = None if step is None else shard.move(step)
            after = before if moved is None else shard._reached
            found.append(ShardStarted(before, after, effort, Effort() if moved is None else moved.effort))
        return found

    def move(self, step: Matrix) -> ShardMoved:
        """Put the neurons at D <- D + Jᵀ step and find which pairs flip. Cost: O(nd) per neuron."""
        push = self._settings.scale * torch.from_numpy(step).to(self._device)[:, None] * self._X
        self._linearised, self._tried = False, torch.empty_like(self._moved)
        for rows in self._blocks():
            pushed = self._signs[rows, None] * (self._fires[rows].double() @ push)
            self._tried[rows] = pushed + self._moved[rows]
        self._found, self._reached = self._look(self._tried)
        flips, firing = int((self._found ^ self._fires).sum()), int(self._found.sum())
        effort = Effort(looks=self._found.numel(), moved=len(self._neurons), flips=flips, firing=firing)
        return ShardMoved(self._reached - self._share, effort, complete=True)

    def _look(self, moved: Any) -> tuple[Any, Matrix]:
        """Return which pairs fire (neurons, n) with what was added to neurons, and the sum of signed outputs (n,)."""
        fires = torch.empty((len(moved), len(self._X)), dtype=torch.bool, device=self._device)
        outputs = torch.zeros(len(self._X), dtype=torch.float64, device=self._device)
        for rows in self._blocks():
            start = self._start[rows.start // self._copies : rows.stop // self._copies].double()
            weights = start.repeat_interleave(self._copies, dim=0) + moved[rows]
            margins = weights @ self._X.T - self._settings.shift
            fires[rows] = margins >= 0
            outputs += self._signs[rows] @ margins.clamp(min=0.0)
        return fires, outputs.cpu().numpy()

    def _start_rows(self) -> Any:
        first, last = self._neurons.start // self._copies, self._neurons.stop // self._copies
        return start_rows(self._settings.start, self._X)(first, last)

    def _blocks(self) -> Iterator[slice]:
        size = max(64, int(min(_BLOCK, device_bytes(self._device) / 64)) // len(self._X) // 2 * 2)
        return (slice(first, min(first + size, len(self._neurons))) for first in range(0, len(self._neurons), size))

    def linearise(self, counts: NDArray[np.int32] | None) -> None:
        """Make the current weights those that steps start from. Cost: O(1), or that of counting."""
        if self._linearised:
            return
        before = None if counts is None else self._counted()  # a shard that was made again has none yet
        self._moved, self._fires, self._share = self._tried, self._found, self._reached
        self._linearised, self._gram, self._counts = True, None, None
        del self._tried, self._found
        if counts is not None:
            counts += torch.tril(self._counted() - before).cpu().numpy()

    def add_counts(self, counts: NDArray[np.int32]) -> None:
        """Add this shard's share of the co-firing counts to the lower triangle of ``counts`` (n, n)."""
        counts += torch.tril(self._counted()).cpu().numpy()

    def _counted(self) -> Any:
        if self._counts is None:
            self._counts = self._count()
        return self._counts

    def _count(self) -> Any:
        counts = torch.zeros((len(self._X), len(self._X)), dtype=torch.int32, device=self._device)
        for rows in self._blocks():
            counts += cofiring(self._fires[rows].T)
        return counts

    def device_gram(self) -> Any:
        """Return this shard's share of m G (n, n), on the device: not to be changed. Cost: that of counting, once."""
        if self._gram is None:
            self._gram = self._counted() * (self._X @ self._X.T)
        return self._gram

    def gram_times(self, vector: Matrix) -> Matrix:
        """Return this shard's share of m G @ vector (n,), or (n, k), from co-firing counts. Cost: O(n²d).

        Of many inputs no matrix but that of the counts is ever whole.
        """
        columns, counts = torch.from_numpy(np.ascontiguousarray(vector)).to(self._device), self._counted()
        found = torch.empty_like(columns)
        size = max(64, _BLOCK // len(counts))
        for rows in (slice(first, first + size) for first in range(0, len(counts), size)):
            found[rows] = (counts[rows] * (self._X[rows] @ self._X.T)) @ columns
        return np.asarray(found.cpu())

    def firing_counts(self) -> NDArray[np.int64]:
        """Return how many neurons fire on each input (n,). Cost: O(n) per neuron."""
        return np.asarray(self._fires.sum(dim=0).cpu())

    def pattern(self) -> Pattern:
        """Return the firing pairs at the last ``linearise``. Cost: O(n) per neuron."""
        rows, inputs = self._fires.nonzero().cpu().numpy().T
        return pattern_of_pairs(self._neurons.start + rows, inputs.astype(np.int32))

    def weights(self) -> DenseWeights:
        """Return the weights at the last ``linearise``, in the memory of the processor."""
        return DenseWeights(self._settings.start, self._moved.cpu().numpy(), self._neurons.start)

    def rounding(self) -> float:
        """Return 0: what was added is stored, not summed."""
        return 0.0
