"""A shard in which most neurons move: what was added to each, and which inputs it fires on, as bits.

Predictions often prefer small shifts, where a third of all pairs fire. Certificates would expire faster than they pay
there, and matrix products over all pairs are the cheaper search. They are in working precision; a pair closer to the
threshold than their rounding is decided in float64, from the weights as they are stored. The first step
hardly moves a neuron if targets are small or the width is large: only pairs closer to the threshold than their neuron
travels can flip, and all others change linearly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort, ShardMoved, ShardStarted
from thresher.loops.pairs.bits import add_outputs, add_pushes, count_flips, list_pairs, panels_of
from thresher.loops.pairs.by_neuron import collect_within
from thresher.loops.pairs.counting import BITS_PER_PAIR, count_shared
from thresher.loops.rounding import reach_of, unit_roundoff
from thresher.model.firing import Pattern, pattern_of_pairs
from thresher.model.weights import DenseWeights
from thresher.shards.margins import Bits, Fast, Margins, Matrix
from thresher.shards.pairs import PairShard
from thresher.shards.recipe import Recipe
from thresher.theory import firing_probability

__all__ = ["Dense"]

_COUNTED = 16384  # neurons whose bits are counted at a time
_TILE = 256  # inputs that are counted for at a time, with as many others
_PAIRS = 1 << 20  # pairs in a block: rows of neurons times inputs
_MANY = 16  # of so many pairs one may be near the threshold before all are computed again
_FEW = 16  # where at most one of so many pairs fires, loops over the firing pairs are cheaper than matrix products
_AT_ONCE = 1024  # neurons whose sums are made at a time where few pairs fire
# Steps beyond the working precision lead to NaN, and are shortened.
_QUIET = np.errstate(over="ignore", invalid="ignore")


def block_bytes(inputs: int, dimension: int) -> int:
    """Return about how many bytes a thread takes for a block of neurons on that many inputs of a dimension."""
    return 24 * (inputs + dimension) * _block_rows(inputs)


def _block_rows(inputs: int) -> int:
    return max(64, min(1024, _PAIRS // inputs) // 2 * 2)


def _write_bits(fires: NDArray[np.bool_], words: NDArray[np.uint64], *, first: int) -> None:
    """Write which neurons fire (n, k) to rows of bits (n, words), from the bit ``first`` on, a multiple of 8."""
    octets = np.packbits(fires, axis=1, bitorder="little")
    words.view(np.uint8)[:, first // 8 : first // 8 + octets.shape[1]] = octets


def _count(words: NDArray[np.uint64], counts: NDArray[np.signedinteger], *, sign: int) -> None:
    """Add to ``counts`` (n, n), lower triangle, ``sign`` for each bit that two rows of ``words`` (n, words) share."""
    n = len(words)
    for row in range(0, n, _TILE):
        for column in range(0, row + 1, _TILE):
            count_shared(words, row, min(row + _TILE, n), column, min(column + _TILE, n), sign, counts)


class Dense(PairShard):
    """A slice of neurons in dense blocks. Memory: (neurons, d) numbers and (neurons, n) bits, twice during a move."""

    SHARE, DENSE = 8, True
    REMEDY = "Use a smaller width or fewer inputs."

    def __init__(self, recipe: Recipe, neurons: range) -> None:
        self._settings, self._inputs, self._neurons = recipe.settings, recipe.inputs, neurons
        self._recipe, self.unit = recipe, unit_roundoff(recipe.dtype)
        self._offsets, shift = recipe.offsets, recipe.settings.shift
        self._margins = Margins(
            recipe.inputs, recipe.fast_inputs, shift if self._offsets is None else shift + self._offsets
        )
        self._copies = recipe.settings.start.copies
        self._moved: Fast = np.zeros((0, recipe.inputs.shape[1]), recipe.dtype)  # none: all at their start
        self._bits = np.zeros((len(neurons), -(-len(recipe.inputs) // 8)), np.uint8)
        self._share = np.zeros(len(recipe.inputs))  # of the outputs at the last linearise
        self._few = firing_probability(recipe.settings.shift) * _FEW < 1  # pairs fire
        self._linearised = True
        self._listed: list[tuple[Any, Any]] | None = None  # the firing pairs, once products over them were asked for

    @staticmethod
    def memory(facts: Any) -> float:
        """Return about how many bytes the shards of a network take."""
        listed = 10 * facts.pairs if firing_probability(facts.shift) * _FEW < 1 else 0.0
        return float(2.3 * facts.neurons * (facts.item * facts.dimension + facts.inputs / 8) + listed)

    @staticmethod
    def block_memory(facts: Any) -> float:
        """Return about how many bytes a thread takes for a block of neurons."""
        return block_bytes(facts.inputs, facts.dimension)

    @staticmethod
    @_QUIET
    def start_together(
        shards: Sequence[Dense], first_steps: Sequence[Matrix | None], *, expected: Sequence[float]
    ) -> list[ShardStarted]:
        """Find which pairs fire at the start and take the first steps, in one pass. Cost: O(nd) per neuron.

        Start weights and their margins are made once for shards of the same neurons, one per output.
        """
        leader, n, copies = shards[0], len(shards[0]._inputs), shards[0]._copies
        firsts = [
            None if step is None else _FirstStep(shard, step) for shard, step in zip(shards, first_steps, strict=True)
        ]
        before, firing = np.zeros(n), 0
        for rows in leader._blocks():
            weights = leader._start_rows(rows)[::copies]
            margins = leader._margins.of_vectors(weights)
            fires = margins >= 0
            bits = np.repeat(np.packbits(fires, axis=1), copies, axis=0)
            firing += int(np.bitwise_count(bits).sum())
            if copies == 1:
                before += leader._signs(rows).astype(margins.dtype) @ np.maximum(margins, 0)
            number = fires.astype(margins.dtype)
            for shard, first in zip(shards, firsts, strict=True):
                shard._bits[rows] = bits
                if first is not None:
                    first.add(rows, weights, margins, number)
        effort = Effort(looks=len(leader._neurons) * n, firing=firing)
        return [shard._begin(before, effort, first) for shard, first in zip(shards, firsts, strict=True)]

    def _begin(self, before: Matrix, effort: Effort, first: _FirstStep | None) -> ShardStarted:
        self._share = before
        if first is None:
            return ShardStarted(before, before, effort, Effort())
        if first.far:
            moved = self.move(first.step).effort
        else:
            self._reached = before + first.change
            if first.products is not None:
                self._reached += np.einsum("nd,nd->n", self._inputs, first.products)
            firing = effort.firing + first.firing
            moved = Effort(looks=first.looks, moved=len(self._neurons), flips=first.flips, firing=firing)
        return ShardStarted(before, self._reached, effort, moved)

    @_QUIET
    def move(self, step: Matrix) -> ShardMoved:
        """Put the neurons at D <- D + Jᵀ step and find which pairs flip. Cost: O(nd) per neuron."""
        self._make_room()
        push, item = self._push(step), self._margins.fast.dtype
        outputs = np.zeros(len(self._inputs))
        firing = flips = 0
        for rows in self._blocks():
            signs = self._signs(rows).astype(item)
            tried = (item.type(self._settings.scale) * signs)[:, None] * self._pushes(self._bits[rows], push)
            if len(self._moved):
                tried += self._moved[rows]
            self._tried[rows] = tried
            margins = self._margins.of_vectors(self._start_rows(rows), tried)
            bits = np.packbits(margins >= 0, axis=1)
            flips += int(np.bitwise_count(bits ^ self._bits[rows]).sum())
            firing += int(np.bitwise_count(bits).sum())
            self._found[rows] = bits
            outputs += signs @ np.maximum(margins, 0, out=margins)
        self._reached = outputs
        neurons = len(self._neurons)
        effort = Effort(looks=neurons * len(outputs), moved=neurons, flips=flips, firing=firing)
        return ShardMoved(outputs - self._share, effort, complete=True)

    def linearise(self, counts: NDArray[np.int32] | None) -> None:
        """Make the current weights those that steps start from. Cost: O(1), or that of counting twice."""
        if self._linearised:
            return
        if counts is not None:
            by_bits = self._change_counts(counts)
            self._add_counts(self._bits[by_bits], counts, sign=-1)
            self._add_counts(self._found[by_bits], counts, sign=1)
        self._moved, self._bits, self._share = self._tried, self._found, self._reached
        self._listed = None
        self._few = int(np.bitwise_count(self._bits).sum()) * _FEW < len(self._bits) * len(self._inputs)
        self._linearised = True
        del self._tried, self._found

    def add_counts(self, counts: NDArray[np.int32]) -> None:
        """Add this shard's share of the co-firing counts to the lower triangle of ``counts`` (n, n)."""
        self._add_counts(self._bits, counts, sign=1)

    def _change_counts(self, counts: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Change the counts pair by pair for neurons with few flips; return which others have any, (neurons,)."""
        before, after = self._bits, self._found
        flips = np.bitwise_count(before ^ after).sum(axis=1, dtype=np.int64)
        firing = np.bitwise_count(before | after).sum(axis=1, dtype=np.int64)
        many: NDArray[np.bool_] = flips * firing * BITS_PER_PAIR > counts.size
        few = (flips > 0) & ~many
        count_flips(before[few], after[few], counts)
        return many  # of some pairs that flip

    def _add_counts(self, bits: Bits, counts: NDArray[np.int32], *, sign: int) -> None:
        n = len(self._inputs)
        for first in range(0, len(bits), _COUNTED):
            some = bits[first : first + _COUNTED]
            words = np.zeros((n, -(-len(some) // 64)), np.uint64)
            for row in range(0, len(some), 1024):
                fires = np.unpackbits(some[row : row + 1024], axis=1, count=n).view(np.bool_)
                _write_bits(np.ascontiguousarray(fires.T), words, first=row)
            _count(words, counts, sign=sign)

    def pattern(self) -> Pattern:
        """Return the firing pairs at the last ``linearise``. Cost: O(n) per neuron."""
        rows, inputs = np.nonzero(np.unpackbits(self._bits, axis=1, count=len(self._inputs)))
        return pattern_of_pairs(self._neurons.start + rows, inputs.astype(np.int32))

    def weights(self) -> DenseWeights:
        """Return the weights at the last ``linearise``."""
        moved = self._moved
        if not len(moved):
            moved = np.zeros((len(self._neurons), self._inputs.shape[1]), self._margins.fast.dtype)
        return DenseWeights(self._settings.start, moved, self._neurons.start)

    def rounding(self) -> float:
        """Return 0: what was added is stored, not summed."""
        return 0.0

    def firing_counts(self) -> NDArray[np.int64]:
        """Return how many neurons fire on each input (n,). Cost: O(n) per neuron."""
        blocks = (np.unpackbits(self._bits[rows], axis=1, count=len(self._inputs)) for rows in self._blocks())
        return sum((block.sum(axis=0, dtype=np.int64) for block in blocks), np.zeros(len(self._inputs), np.int64))

    @_QUIET
    def gram_times(self, vector: Matrix) -> Matrix:
        """Return this shard's share of m G @ vector (n,), or (n, k), in working precision.

        Cost per vector: O(nd) per neuron, or O(d) per firing pair where few fire.
        """
        if vector.ndim == 2:
            return np.stack([self.gram_times(one) for one in vector.T], axis=1)
        push = self._push(vector)
        if self._few:
            if self._listed is None:
                self._listed = [list_pairs(self._bits[rows]) for rows in self._blocks(_AT_ONCE)]
            found = np.zeros(len(vector))
            for pairs in self._listed:
                add_outputs(*pairs, self._panels_of_pushes(pairs, push), self._recipe.panels, found)
            return found
        total = np.zeros_like(self._inputs)
        for rows in self._blocks():
            fires = self._numbers(self._bits[rows])
            total += fires.T @ (fires @ push)
        return np.einsum("nd,nd->n", self._inputs, total)

    def _pushes(self, bits: Bits, push: Fast) -> Fast:
        """Return the sum of v_i x_i over the inputs that each neuron fires on, (k, d), from ``_push`` of v."""
        if not self._few:
            return self._numbers(bits) @ push
        panels = self._panels_of_pushes(list_pairs(bits), push)
        return panels.transpose(1, 0, 2).reshape(len(bits), -1)[:, : self._inputs.shape[1]]

    def _panels_of_pushes(self, pairs: tuple[Any, Any], push: Fast) -> Fast:
        panels = self._recipe.panels
        sums = np.zeros((len(panels), pairs[0].shape[1] - 1, panels.shape[2]), panels.dtype)
        add_pushes(*pairs, push, panels, sums)
        return sums

    def _make_room(self) -> None:
        if self._linearised:
            self._linearised = False
            self._tried = np.empty((len(self._neurons), self._inputs.shape[1]), self._margins.fast.dtype)
            self._found = np.empty_like(self._bits)

    def _push(self, v: Matrix) -> Fast:
        """Return v_i x_i (n, d) in working precision, v_i (n,) where few pairs fire; infinite beyond its range."""
        fast = v.astype(self._margins.fast.dtype)
        return fast if self._few else fast[:, None] * self._margins.fast

    def _blocks(self, size: int | None = None) -> Iterator[slice]:
        """Yield blocks of neurons, counted from the first of the shard; twins stay together."""
        size = size or _block_rows(len(self._inputs))
        return (slice(first, min(first + size, len(self._neurons))) for first in range(0, len(self._neurons), size))

    def _start_rows(self, rows: slice) -> NDArray[np.float32]:
        first = self._neurons.start
        return self._settings.start.block(first + rows.start, first + rows.stop)

    def _signs(self, rows: slice) -> Matrix:
        first = self._neurons.start
        return self._settings.start.signs(np.arange(first + rows.start, first + rows.stop))

    def _numbers(self, bits: Bits) -> Fast:
        """Return the firing pairs of a block as numbers (rows, n)."""
        return np.unpackbits(bits, axis=1, count=len(self._inputs)).astype(self._margins.fast.dtype)


class _FirstStep:
    """The first step of a shard, block by block: linear but for pairs near the threshold, which are computed exactly.

    Where neurons travel so far that many pairs are near, it gives up: ``far``.
    """

    def __init__(self, shard: Dense, step: Matrix) -> None:
        self.step, self.far = step, False
        self.products: Matrix | None = None
        self.change = np.zeros(len(shard._inputs))
        self.looks, self.flips, self.firing = 0, 0, 0
        self._shard, self._push = shard, shard._push(step)
        shard._make_room()

    def add(self, rows: slice, start: Fast, margins: Fast, fires: Fast) -> None:
        """Take the step of a block: start weights (k, d), margins and firing pairs (k, n) of one of each two twins."""
        if self.far:
            return
        shard, copies = self._shard, self._shard._copies
        bits = np.ascontiguousarray(shard._bits[rows][::copies])
        pushes = shard._pushes(bits, self._push) if shard._few else fires @ self._push
        moved = (shard._settings.scale * pushes).astype(margins.dtype, copy=False)
        squares = np.einsum("kd,kd->k", moved, moved, dtype=np.float64)
        norms = np.linalg.norm(start, axis=1).astype(np.float64) + np.sqrt(squares)
        reach = reach_of(np.sqrt(squares)) + shard._margins.guard(norms)
        pairs, inputs = collect_within(margins, reach)
        self.far = not np.isfinite(reach).all() or len(pairs) * _MANY > margins.size
        if self.far:
            return
        signs = shard._signs(rows).reshape(len(start), copies)  # twins move by as much, in opposite directions
        tried = signs.astype(moved.dtype)[:, :, None] * moved[:, None]
        shard._tried[rows], shard._found[rows] = tried.reshape(-1, moved.shape[1]), shard._bits[rows]
        if shard._few:
            add_outputs(*list_pairs(bits), panels_of(copies * moved), shard._recipe.panels, self.change)
        else:
            self.products = np.zeros_like(shard._inputs) if self.products is None else self.products
            self.products += copies * (fires.T @ moved)
        self.looks += copies * len(pairs)
        fired, before = fires[pairs, inputs] > 0, shard._margins.exact(start, None, pairs, inputs)
        for twin in range(copies):
            after = shard._margins.exact(start, tried[:, twin], pairs, inputs)
            linear = np.where(fired, after - before, 0.0)  # what the products count
            change = np.maximum(after, 0) - np.maximum(before, 0) - linear
            self.change += np.bincount(inputs, signs[pairs, twin] * change, minlength=len(self.change))
            flipped = (after >= 0) != fired
            where = rows.start + copies * pairs[flipped] + twin, inputs[flipped] >> 3
            np.bitwise_xor.at(shard._found, where, (128 >> (inputs[flipped] & 7)).astype(np.uint8))
            self.firing += int((after >= 0).sum()) - int(fired.sum())
            self.flips += int(flipped.sum())
