"""All neurons of one output in dense blocks: what was added to each, and who fires, as bits.

The first step from the start hardly moves a neuron if targets are small or the width is large. Only pairs that were
closer to the threshold than their neuron travels can then flip; they are listed, once for all outputs, when
the start is passed over. What such a step leads to is linear but for these. Steps that go farther, and later ones, pass
over all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from operator import add
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thresher.loops.counting import count_shared
from thresher.model.network import NetworkSettings, row_blocks
from thresher.model.weights import DenseWeights
from thresher.parallel import in_order

__all__ = ["Dense", "Point", "RidgeStep", "start_gram"]

Matrix = NDArray[np.float64]
Fast = NDArray[np.float32]
Numbers = NDArray[np.int64]
_TASK = 2048  # neurons whose sums are made by one thread at a time
_COUNTED, _TILE = 16384, 256  # neurons whose bits are counted at a time; inputs, with as many others, in a task
PAIRS = 1 << 20  # pairs in a block: rows of neurons times inputs
_BAND = 1e-3  # pairs at most as far from the threshold are listed at the start: one in a thousand


class RidgeStep(NamedTuple):
    """One step: alpha (n,), and the fraction of the way to W(0) + Jᵀ alpha that was gone."""

    alpha: Matrix
    fraction: float


class Point(NamedTuple):
    """What is known of a point: sums over neurons, and how many pairs were looked at to find them."""

    outputs: Matrix  # f (n,)
    distance: float  # ||W - W(0)||²
    firing: int
    flips: int
    looks: int


class _Near(NamedTuple):
    """Pairs at most _BAND from the threshold at the start; of twins, those of the first."""

    neurons: Numbers
    inputs: Numbers
    heights: Matrix  # pre-activation minus threshold
    fires: NDArray[np.bool_]


def start_gram(inputs: Matrix, settings: NetworkSettings, *, threads: int = 1) -> Matrix:
    """Return the Gram matrix J Jᵀ (n, n) of a network at its start, on inputs (n, d). Cost: O(mn(n/64 + d)).

    Who fires is one bit for each neuron in the row of an input; two rows are compared 64 neurons at a time. Twins fire
    together, so one of each pair is counted. Memory: 12 n² bytes, and 2048 for each input.
    """
    n, neurons = len(inputs), settings.width // _copies(settings)
    fast = np.ascontiguousarray(inputs, np.float32)
    counts = np.zeros((n, n), np.int32 if neurons < 1 << 31 else np.int64)
    tiles = [(row, column) for row in range(0, n, _TILE) for column in range(0, row + 1, _TILE)]
    for some in row_blocks(0, neurons, size=_COUNTED):
        bits = _start_bits(fast, settings, some, threads=threads)
        list(in_order(partial(_count_tile, bits, counts), tiles, threads=threads))
    gram = np.empty((n, n))

    def finish(row: int) -> None:
        last = min(row + _TILE, n)
        done = np.multiply(counts[row:last, :last], inputs[row:last] @ inputs[:last].T, out=gram[row:last, :last])
        done /= neurons
        done[:, row:] += np.tril(done[:, row:], -1).T
        gram[:row, row:last] = done[:, :row].T

    list(in_order(finish, range(0, n, _TILE), threads=threads))
    return gram


def _start_bits(fast: Fast, settings: NetworkSettings, some: range, *, threads: int) -> NDArray[np.uint64]:
    """Return who fires at the start (n, words): for each input one bit a neuron of the range, or a pair of twins."""
    bits = np.zeros((len(fast), -(-len(some) // 64)), np.uint64)
    octets = bits.view(np.uint8)

    def fill(block: range) -> None:
        fires = fast @ settings.start.base_block(block.start, block.stop) >= np.float32(settings.shift)
        first, last = block.start - some.start, block.stop - some.start
        octets[:, first // 8 : -(-last // 8)] = np.packbits(fires, axis=1, bitorder="little")

    whole_words = max(64, min(1024, PAIRS // len(fast)) // 64 * 64)
    list(in_order(fill, row_blocks(some.start, some.stop, size=whole_words), threads=threads))
    return bits


def _count_tile(bits: NDArray[np.uint64], counts: NDArray[np.signedinteger], tile: tuple[int, int]) -> None:
    row, column = tile
    count_shared(bits, row, min(row + _TILE, len(bits)), column, min(column + _TILE, len(bits)), counts)


def _copies(settings: NetworkSettings) -> int:
    return 2 if settings.start.twins else 1


def _rows(inputs: int, *, most: int) -> int:
    """Return the rows of a block: an even number, since twins stay together."""
    return max(64, min(most, PAIRS // inputs) // 2 * 2)


class Dense:
    """All neurons of one output; a point is held, another may be tried. Memory: (m, d) numbers and (m, n) bits each."""

    def __init__(self, inputs: Matrix, settings: NetworkSettings, threads: int) -> None:
        self.inputs, self.settings, self.threads = inputs, settings, threads
        self._fast = np.ascontiguousarray(inputs, np.float32)
        self._longest = float(np.linalg.norm(inputs, axis=1).max())  # 1, but for rounding
        self._rows, self._copies = _rows(len(inputs), most=1024), _copies(settings)
        self._moved = np.zeros((settings.width, inputs.shape[1]), np.float32)
        self._bits = np.zeros((settings.width, -(-len(inputs) // 8)), np.uint8)
        self.start, self._near = self._begin()
        self._at_start = True
        self._make_room()

    def fork(self, *, threads: int) -> Self:
        """Return another output that stands at the point held here, without copying it."""
        other = copy(self)
        other.threads = threads
        other._make_room()
        return other

    def _make_room(self) -> None:
        self._tried, self._found = np.empty_like(self._moved), np.empty_like(self._bits)

    def accept(self) -> None:
        """Hold the point that was looked at last; the one held before may be held by others."""
        self._moved, self._bits, self._at_start = self._tried, self._found, False
        self._make_room()

    def weights(self) -> DenseWeights:
        """Return the weights of the point held."""
        return DenseWeights(self.settings.start, self._moved)

    def look(self, step: RidgeStep) -> Point:
        """Return what is found after a step from the held point. Cost: O(mnd)."""
        push = step.alpha.astype(np.float32)[:, None] * self._fast
        near = self._look_near(step, push) if self._at_start else None
        return self._look_everywhere(push, np.float32(step.fraction)) if near is None else near

    def times(self, vector: Matrix) -> Matrix:
        """Return J Jᵀ v (n,) at the held point, without forming a matrix. Cost: O(mnd)."""
        push = vector.astype(np.float32)[:, None] * self._fast
        return self.settings.scale**2 * self._sum_where_firing(lambda rows, fires: fires @ push)

    def pushed(self) -> Matrix:
        """Return J (W - W(0)) (n,) at the held point. Cost: O(mnd)."""

        def moved(rows: slice, fires: Fast) -> Fast:
            return self._signs(rows)[:, None] * self._moved[rows]

        return self.settings.scale * self._sum_where_firing(moved)

    def _sum_where_firing(self, vectors: Callable[[slice, Fast], Fast]) -> Matrix:
        """Return for each input the sum, over the neurons that fire on it, of its product with their vector (n,)."""

        def part(task: range) -> Matrix:
            total = np.zeros_like(self.inputs)
            for rows in self._blocks(task):
                fires = self._fires(rows)
                total += fires.T @ vectors(rows, fires)
            return total

        total = sum(in_order(part, self._tasks(), threads=self.threads), np.zeros_like(self.inputs))
        return np.einsum("nd,nd->n", self.inputs, total)

    def _tasks(self) -> Iterator[range]:
        return row_blocks(0, self.settings.width, size=_TASK)

    def _blocks(self, task: range) -> Iterator[slice]:
        return (slice(one.start, one.stop) for one in row_blocks(task.start, task.stop, size=self._rows))

    def _signs(self, rows: slice) -> Fast:
        return self.settings.start.signs(np.arange(rows.start, rows.stop)).astype(np.float32)

    def _fires(self, rows: slice, *, every: int = 1) -> Fast:
        """Return who fires at the held point, as numbers (rows, n)."""
        return np.unpackbits(self._bits[rows][::every], axis=1, count=len(self.inputs)).astype(np.float32)

    def _begin(self) -> tuple[Point, _Near | None]:
        """Find who fires at the start, and the pairs near the threshold; None if single precision cannot tell those.

        Twins cancel: their outputs are 0.
        """
        start, shift = self.settings.start, np.float32(self.settings.shift)
        rounding = (start.dimension + 4) * float(np.finfo(np.float32).eps)
        told = rounding * (np.sqrt(start.dimension) + float(shift)) < _BAND

        def part(task: range) -> tuple[Point, list[_Near]]:
            outputs, firing, near = np.zeros(len(self.inputs)), 0, list[_Near]()
            for rows in self._blocks(task):
                weights = start.block(rows.start, rows.stop)[:: self._copies]
                heights = weights @ self._fast.T
                heights -= shift
                bits = np.packbits(heights >= 0, axis=1)
                self._bits[rows] = np.repeat(bits, self._copies, axis=0)
                firing += self._copies * int(np.bitwise_count(bits).sum())
                if told:
                    reach = _BAND + rounding * (self._longest * np.linalg.norm(weights, axis=1) + shift)
                    pairs, inputs = np.nonzero(np.abs(heights) <= reach[:, None].astype(np.float32))
                    exact = self._along(weights, pairs, inputs) - self.settings.shift
                    near.append(_Near(rows.start + self._copies * pairs, inputs, exact, heights[pairs, inputs] >= 0))
                if self._copies == 1:
                    outputs += self.settings.scale * (self._signs(rows) @ np.maximum(heights, 0, out=heights))
            return Point(outputs, 0.0, firing, 0, (task.stop - task.start) * len(outputs)), near

        parts = list(in_order(part, self._tasks(), threads=self.threads))
        point = _total(point for point, _ in parts)
        lists = [one for _, near in parts for one in near]
        return point, _Near(*map(np.concatenate, zip(*lists, strict=True))) if told else None

    def _along(self, vectors: Fast, rows: Numbers, inputs: Numbers) -> Matrix:
        """Return the products (p,) of some rows of vectors with some inputs, in double precision."""
        pieces = 1 + len(rows) * len(self.inputs[0]) // PAIRS
        return np.concatenate(
            [
                np.einsum("pd,pd->p", vectors[some].astype(np.float64), self.inputs[others])
                for some, others in zip(np.array_split(rows, pieces), np.array_split(inputs, pieces), strict=True)
            ]
        )

    def _look_near(self, step: RidgeStep, push: Fast) -> Point | None:
        """Return what is found after a first step, from pairs near the threshold; None if neurons go farther."""
        if self._near is None:
            return None

        def part(task: range) -> tuple[Matrix, float, float]:
            total, distance, farthest = np.zeros_like(self.inputs), 0.0, 0.0
            for rows in self._blocks(task):
                fires = self._fires(rows, every=self._copies)
                moved = self._move(rows, fires, push, np.float32(step.fraction))
                squares = np.einsum("rd,rd->r", moved, moved, dtype=np.float64)
                distance += float(squares.sum())
                farthest = float(np.maximum(farthest, np.sqrt(squares.max())))  # nan stays
                signed = self._signs(rows)[:, None] * moved
                total += fires.T @ signed.reshape(len(fires), self._copies, -1).sum(axis=1)
            return total, distance, farthest

        total, distance = np.zeros_like(self.inputs), 0.0
        for products, squares, farthest in in_order(part, self._tasks(), threads=self.threads):
            if not farthest * self._longest <= _BAND:
                return None  # before the other tasks are begun
            total, distance = total + products, distance + squares
        change, firing, flips = np.zeros(len(self.inputs)), self.start.firing, 0
        self._found[:] = self._bits
        near = self._near
        for twin in range(self._copies):
            neurons = near.neurons + twin
            heights = near.heights + self._along(self._tried, neurons, near.inputs)
            fires = heights >= 0
            said = np.maximum(heights, 0) - near.fires * heights  # beyond what a pair that does not flip says
            change += np.bincount(near.inputs, self.settings.start.signs(neurons) * said, minlength=len(change))
            flipped = fires != near.fires
            where = neurons[flipped], near.inputs[flipped] >> 3
            np.bitwise_xor.at(self._found, where, (128 >> (near.inputs[flipped] & 7)).astype(np.uint8))
            firing, flips = firing + int(fires.sum()) - int(near.fires.sum()), flips + int(flipped.sum())
        linear = np.einsum("nd,nd->n", self.inputs, total)
        outputs = self.start.outputs + self.settings.scale * (linear + change)
        return Point(outputs, distance, firing, flips, self._copies * len(near.inputs))

    def _look_everywhere(self, push: Fast, fraction: np.float32) -> Point:
        def part(task: range) -> Point:
            outputs, distance, firing, flips = np.zeros(len(self.inputs)), 0.0, 0, 0
            for rows in self._blocks(task):
                moved = self._move(rows, self._fires(rows), push, fraction)
                active = (self.settings.start.block(rows.start, rows.stop) + moved) @ self._fast.T
                active -= np.float32(self.settings.shift)
                bits = np.packbits(active >= 0, axis=1)
                flips += int(np.bitwise_count(bits ^ self._bits[rows]).sum())
                firing += int(np.bitwise_count(bits).sum())
                self._found[rows] = bits
                outputs += self.settings.scale * (self._signs(rows) @ np.maximum(active, 0, out=active))
                distance += float(np.einsum("rd,rd->", moved, moved, dtype=np.float64))
            return Point(outputs, distance, firing, flips, (task.stop - task.start) * len(outputs))

        return _total(in_order(part, self._tasks(), threads=self.threads))

    def _move(self, rows: slice, fires: Fast, push: Fast, fraction: np.float32) -> Fast:
        """Return what is added to the start weights of a block after a step, and keep it as tried.

        Who fires may be told of one twin of each pair, if they fire together.
        """
        out = self._tried[rows]
        moves = np.repeat(fires @ push, len(out) // len(fires), axis=0)
        np.multiply(moves, (np.float32(self.settings.scale) * self._signs(rows))[:, None], out=out)
        if fraction != 1:
            out += (1 - fraction) * (self._moved[rows] - out)
        return out


def _total(parts: Iterator[Point]) -> Point:
    total = next(parts)
    for one in parts:
        total = Point(*map(add, total, one))
    return total
