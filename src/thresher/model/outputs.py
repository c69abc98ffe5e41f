"""Outputs of networks of which few neurons fire on an input: rows are searched for those that may."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thresher.loops.instructions.butterflies import TILE
from thresher.loops.instructions.places import EXTRA
from thresher.loops.instructions.vectors import padded
from thresher.loops.outputs import add_outputs, divide_twins, measure_rows, move_rows, rows_near, rows_reaching
from thresher.loops.rounding import of_margin, unit_roundoff
from thresher.loops.structures import PredictedRows, TransformRoom
from thresher.loops.transformed import add_transformed
from thresher.model.hadamard import Rotated, by_additions
from thresher.model.poisson import AnyStart
from thresher.model.weights import Floating, Weights
from thresher.parallel import in_order

__all__ = ["few_near", "few_vectors_near", "sum_near", "sum_vectors"]

Matrix = NDArray[np.float64]
_FEW = 0.1  # share of pairs that may be looked at one by one: each costs as much as several in a matrix product
_SAMPLE = 256  # moved neurons that tell how far they have moved
# Rows at a time, and of a partial sum. Columns of a power of two of them would share few places of the cache.
_BLOCK, _TASK = 408, 408 << 5
_FEW_INPUTS = 16  # up to so many, rows that fire on none of them are found first and skipped
# Numbers of displaced rows that are kept while all inputs go past, and rows of a partial sum.
_LOT, _TRANSFORMED = 1 << 16, 1 << 13
_LONGEST = 1 << 11  # of more columns, what was added to a block of rows takes more memory than other predictions
_COUNTED = 0.1  # from this share of rows that count on, all are transformed
_DENSE = 0.8  # from this share on, all rows of a range are made, and those that are needed picked


def few_near(weights: Weights, shift: float) -> bool:
    """Return whether few pairs fire, or are nearer to it than twins have moved. Cost: O(d) for some coefficients."""
    some, d = weights.part(0, min(_SAMPLE, len(weights.support.neurons))), weights.start.dimension
    moved = np.append(some.distances(), 0.0)
    reach = float(moved.mean()) if weights.start.twins else 0.0
    return _few(shift - reach, math.sqrt(1.0 + np.mean(moved**2) / d))


def few_vectors_near(vectors: Floating, shift: float, *, twins: bool) -> bool:
    """Return the same of vectors (m, d), or of twins that follow each other. Cost: O(d) for some of them."""
    some = np.asarray(vectors[: 2 * _SAMPLE], np.float64) if len(vectors) else np.zeros((2, 1))
    reach = float(np.linalg.norm(some[::2] - some[1::2], axis=1).mean()) / 2 if twins else 0.0
    return _few(shift - reach, math.sqrt(np.mean(some**2)))


def _few(level: float, deviation: float) -> bool:
    """Return whether few normal numbers of that standard deviation are above the level."""
    return 0.5 * math.erfc(level / (math.sqrt(2) * max(deviation, 1e-30))) <= _FEW


class _Search:
    """New inputs (k, d), and how rows are searched for pairs near the threshold."""

    def __init__(self, inputs: Matrix, shift: float, dtype: DTypeLike) -> None:
        self.inputs: Floating = padded(inputs, dtype)
        self.shift, self.unit, self.few = shift, unit_roundoff(dtype), len(inputs) <= _FEW_INPUTS
        self.block = 8 * _BLOCK if self.few else _BLOCK
        self._dimension = inputs.shape[1]

    def room(self) -> Floating:
        """Return room for the products of a block."""
        return np.empty((self.block, len(self.inputs)), self.inputs.dtype)

    def add(self, centres: Floating, halves: Floating, coefficients: Matrix, room: Floating, sums: Matrix) -> None:
        """Add to ``sums`` (k,) what rows add to the outputs: those of ``PredictedRows``, padded as the inputs are."""
        d, products = self._dimension, room[: len(centres)]
        np.matmul(centres[:, :d], self.inputs[:, :d].T, out=products)
        reach, guard = measure_rows(centres, halves, self.shift, self.unit)
        made = PredictedRows(centres, halves, coefficients, reach, guard, products)
        add_outputs(made, self.inputs, self.shift, sums)


def sum_near(weights: Weights, inputs: Matrix, shift: float, *, neurons: int, threads: int) -> Matrix:
    """Return the sums over neurons of sign times max(<w, x> - shift, 0), (k,), on inputs (k, d); ``neurons`` exist.

    Twins share a product, and those that never moved cancel. Sums have a fixed order, whatever ``threads`` are; that of
    an input does not depend on the others, but for the last digits where these are few.

    Cost: O(kd) per row that counts, and O(d) per pair that is near the threshold; O(k) per coefficient for few inputs.
    Of Hadamard rows O(k log d) per row, and O(d) per coefficient and pair nearer than its neuron has moved.
    """
    start, copies = weights.start, weights.start.copies
    rows: range | NDArray[np.int64] = range(neurons)
    if start.twins:
        pairs = weights.support.neurons >> 1  # ascending
        rows = pairs[np.diff(pairs, prepend=-1) > 0]
    if _transforms(weights, len(rows), neurons // copies):
        return _sum_transformed(weights, inputs, shift, rows=neurons // copies, threads=threads)
    search = _Search(inputs, shift, weights.dtype)
    added = (*weights.support, weights.coefficients, weights.inputs.astype(weights.dtype))
    few = inputs if search.few else inputs[:0]
    fast, of_inputs = few.astype(np.float32), few @ weights.inputs.T

    def part(first: int) -> Matrix:
        sums, room = np.zeros(len(inputs)), search.room()
        for begin in range(first, min(first + _TASK, len(rows)), search.block):
            some = rows[begin : begin + search.block]
            base = np.arange(some.start, some.stop) if isinstance(some, range) else some
            made, places = _columns(start, base)
            if search.few:
                longest = math.sqrt(np.einsum("kr,kr->r", made, made).max())
                products = (made.T @ fast.T)[places]
                near = rows_near(base, copies, added, products, of_inputs, shift, longest, search.unit)
                base, places = base[near], places[near]
            centres = np.empty((len(base), search.inputs.shape[1]), weights.dtype)
            halves = np.empty_like(centres) if start.twins else centres[:0]
            move_rows(base, places, added, made, centres, halves)
            search.add(centres, halves, start.signs(copies * base), room, sums)
        return sums

    return sum(in_order(part, range(0, len(rows), _TASK), threads=threads), np.zeros(len(inputs)))


def _transforms(weights: Weights, counted: int, rows: int) -> bool:
    """Return whether a transform of all rows is to make products, rather than those rows alone that count."""
    start = weights.start
    possible = by_additions(start.sequence, weights.dtype) and start.dimension <= _LONGEST
    return possible and counted >= _COUNTED * rows


def _sum_transformed(weights: Weights, inputs: Matrix, shift: float, *, rows: int, threads: int) -> Matrix:
    """Do as :func:`sum_near`; which pairs are looked at depends on nothing but the row and the input."""
    start, (k, d) = weights.start, inputs.shape
    rotated = Rotated.of(inputs, seed=start.seed)
    tiles, p = rotated.tiles, rotated.tiles.shape[1]
    X = padded(np.concatenate([inputs, np.zeros((len(tiles) * TILE - k, d))]), np.float32)
    trained = padded(weights.inputs, np.float32)
    added = (*weights.support, weights.coefficients, trained)
    lot = p * max(1, _LOT // (p * X.shape[1]))
    task = lot * max(1, _TRANSFORMED // lot)

    def part(first: int) -> Matrix:
        sums, numbers = np.zeros(len(X)), np.arange(first, min(first + task, rows))
        room = _transform_room(lot, p, X.shape[1], len(trained), twins=start.twins)
        signs = start.signs(start.copies * numbers)
        add_transformed(np.uint64(start.seed), first, first + len(numbers), tiles, X, added, signs, shift, room, sums)
        return sums[:k]

    return sum(in_order(part, range(0, rows, task), threads=threads), np.zeros(k))


def _transform_room(rows: int, p: int, columns: int, n: int, *, twins: bool) -> TransformRoom:
    signs, lengths = np.empty((2, rows // p, p), np.float32)
    centres = np.empty((rows, columns), np.float32)
    halves = np.empty_like(centres) if twins else centres[:0]
    levels, inner = np.empty((2, rows), np.float32)
    values, changes = np.empty((2, p * TILE), np.float32)
    return TransformRoom(
        signs, lengths, np.empty((p, TILE), np.float32), centres, halves, levels, inner, np.empty(n, np.float32),
        np.empty(p * TILE + EXTRA, np.int32), values, changes,
    )  # fmt: skip


def sum_vectors(
    vectors: Floating,
    coefficients: Floating,
    inputs: Matrix,
    shift: float,
    *,
    longest: float,
    twins: bool,
    threads: int,
) -> Matrix:
    """Return the sums of coefficients (m,) times max(<w, x> - shift, 0), (k,), on inputs (k, d), for vectors (m, d).

    Norms are at most ``longest``. Twins follow each other, with coefficients of opposite sign. Order and cost: as of
    :func:`sum_near`.
    """
    search, copies = _Search(inputs, shift, vectors.dtype), 2 if twins else 1
    d, scales = vectors.shape[1], coefficients[::copies]
    low = vectors.dtype.type(shift - 2.0 * of_margin(d, search.unit, longest, shift))
    whole: Floating = np.ascontiguousarray(vectors).reshape(-1, copies * d)  # type: ignore[assignment]

    def part(first: int) -> Matrix:
        sums, room = np.zeros(len(inputs)), search.room()
        for begin in range(first, min(first + _TASK, len(whole)), search.block):
            block, scale = whole[begin : begin + search.block], scales[begin : begin + search.block]
            if search.few:
                products = block.reshape(-1, d) @ search.inputs[:, :d].T
                near = rows_reaching(products.reshape(len(block), -1), low)
                block, scale = block[near], scale[near]
            if twins:
                centres, halves = divide_twins(block.reshape(-1, d), search.inputs.shape[1])
            else:
                centres = padded(block, block.dtype)
                halves = centres[:0]
            search.add(centres, halves, scale.astype(np.float64), room, sums)
        return sums

    return sum(in_order(part, range(0, len(whole), _TASK), threads=threads), np.zeros(len(inputs)))


def _columns(start: AnyStart, base: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return start rows as columns (d, at least rows), and which of them have the given numbers, ascending."""
    first, last = int(base[0]), int(base[-1]) + 1
    if len(base) >= _DENSE * (last - first):
        return start.base_block(first, last), base - first
    return np.ascontiguousarray(start.rows(start.copies * base).T), np.arange(len(base))
