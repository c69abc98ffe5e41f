"""Outputs of a network on new inputs, from the pairs that fire: few of them, where neurons have not moved far.

Twins with the vectors w and w' are looked at together, by their centre c = (w + w') / 2 and half h = (w - w') / 2: one
of them fires on x if <c, x> + |<h, x>| reaches the threshold, so pairs with <c, x> + |h| below it need no look.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from thresher.loops import compiled, helper
from thresher.loops.instructions.places import EXTRA, ZERO, pick, places_at_least
from thresher.loops.instructions.vectors import dot_rows
from thresher.loops.rounding import STRETCH, of_margin, of_product
from thresher.loops.structures import PredictedRows

__all__ = ["add_outputs", "divide_twins", "measure_rows", "move_rows", "rows_near", "rows_reaching", "which_fire"]


@compiled(allocates=True)
def move_rows(base, places, added, start, centres, halves):
    """Add to start rows what training added to their neurons: write centres, and halves of twins, (rows, padded d).

    ``added`` are the neurons that moved, bounds, inputs and coefficients (see ``Weights``), and the inputs of training.
    ``base`` (rows,) are their numbers, ascending; they are the columns ``places`` (rows,) of ``start`` (d, at least
    rows). Without twins halves are (0, padded d). Cost: O(d) per row and coefficient.
    """
    stored, bounds, inputs, coefficients, X = added
    d, rows, copies = start.shape[0], base.size, 2 if halves.shape[0] else 1
    vectors = np.zeros((2, d))
    s = np.searchsorted(stored, copies * base[0]) if rows else 0
    for r in range(rows):
        for twin in range(copies):
            neuron = copies * base[r] + twin
            while s < stored.size and stored[s] < neuron:
                s += 1
            for k in range(d):
                vectors[twin, k] = 0.0
            if s < stored.size and stored[s] == neuron:
                for p in range(bounds[s], bounds[s + 1]):
                    c, j = coefficients[p], inputs[p]
                    for k in range(d):
                        vectors[twin, k] += c * X[j, k]
        place = places[r]
        if copies == 2:
            for k in range(d):
                halves[r, k] = 0.5 * (vectors[0, k] - vectors[1, k])
                vectors[0, k] = 0.5 * (vectors[0, k] + vectors[1, k])
        for k in range(d):
            centres[r, k] = start[k, place] + vectors[0, k]
        for k in range(d, centres.shape[1]):
            centres[r, k] = 0
        for k in range(d, halves.shape[1] if copies == 2 else 0):
            halves[r, k] = 0


@compiled(allocates=True)
def divide_twins(vectors, padded):
    """Return centres and halves (rows, padded d) of twins, whose vectors (2 rows, d) follow each other.

    Cost: O(d) per row.
    """
    rows, d = vectors.shape[0] // 2, vectors.shape[1]
    centres, halves = np.zeros((2, rows, padded), vectors.dtype)
    for r in range(centres.shape[0]):
        one, two = vectors[2 * r], vectors[2 * r + 1]
        for k in range(d):
            centres[r, k] = 0.5 * (np.float64(one[k]) + np.float64(two[k]))
            halves[r, k] = 0.5 * (np.float64(one[k]) - np.float64(two[k]))
    return centres, halves


@helper(sums=True)
def _norm(vector):
    square = vector.dtype.type(0)
    for k in range(vector.size):
        square += vector[k] * vector[k]
    return np.sqrt(np.float64(square))


@compiled(allocates=True)
def measure_rows(centres, halves, shift, unit):
    """Return how far halves reach on any input, and what products with centres lose, (rows,) each. Cost: O(d) a row."""
    rows, d = centres.shape
    reach, guard = np.zeros(rows), np.empty(rows)
    for r in range(rows):
        if halves.shape[0]:
            reach[r] = STRETCH * (1.0 + of_product(d, unit)) * _norm(halves[r])
        guard[r] = 2.0 * of_margin(d, unit, _norm(centres[r]), shift)
    return reach, guard


@njit(inline="always")
def _keep_near(bounds, changes, found, count, low):
    """Keep of the inputs found, and of changes, those whose bounds may reach ``low`` by a change; return how many."""
    kept = ZERO
    for c in range(count):
        i, change = found[c], changes[c]
        found[kept], changes[kept] = i, change
        kept += np.uint64(bounds[c] + abs(change) >= low)
    return np.int64(kept)


@njit(inline="always")
def _add_twins(coefficient, shift, found, count, changes, values, sums):
    """Add what twins add to the outputs on the inputs found."""
    for c in range(count):
        margin, change = np.float64(values[c]) - shift, np.float64(changes[c])
        sums[found[c]] += coefficient * (max(margin + change, 0.0) - max(margin - change, 0.0))


def add_outputs(rows: PredictedRows, X: NDArray[np.floating], shift: float, sums: NDArray[np.float64]) -> None:
    """Add to ``sums`` (k,) what ``PredictedRows`` add to the outputs on inputs X (k, d).

    Products say which pairs are looked at; what these add does not depend on products, to the bit, nor on the inputs
    around them. Cost: O(d) per pair near the threshold, besides what finds it.
    """
    found, (bounds, values, changes) = np.empty(len(X) + EXTRA, np.int32), np.empty((3, len(X)), X.dtype)
    _add_rows(rows, X, shift, sums, found, bounds, values, changes)


@compiled
def _add_rows(rows, X, shift, sums, found, bounds, values, changes):
    """See :func:`add_outputs`; the last arguments are room."""
    centres, halves, products, coefficients, reach, guard = (
        rows.centres, rows.halves, rows.products, rows.coefficients, rows.reach, rows.guard,
    )  # fmt: skip
    k, twins = len(X), len(halves) > 0
    for r in range(len(centres)):
        count = places_at_least(products[r], k, X.dtype.type(shift - reach[r] - guard[r]), found)
        if count == 0:
            continue
        if not twins:
            dot_rows(centres[r], X, found, count, values)
            for c in range(count):
                sums[found[c]] += coefficients[r] * max(np.float64(values[c]) - shift, 0.0)
            continue
        pick(products[r], found, count, bounds)
        dot_rows(halves[r], X, found, count, changes)
        kept = _keep_near(bounds, changes, found, count, X.dtype.type(shift - guard[r]))
        if kept:
            dot_rows(centres[r], X, found, kept, values)
            _add_twins(coefficients[r], shift, found, kept, changes, values, sums)


@compiled(allocates=True)
def rows_near(base, copies, added, products, of_inputs, shift, longest, unit):
    """Return which start rows have a neuron that may fire on some input in working precision, (rows,).

    ``products`` (rows, k) are those of the rows, none longer than ``longest``, with the inputs; ``of_inputs`` (k, n) of
    the inputs with those of training. Cost: O(k) per row and coefficient.
    """
    stored, bounds, inputs, coefficients, X = added
    near, s = np.zeros(base.size, np.bool_), np.searchsorted(stored, copies * base[0])
    for r in range(base.size):
        while s < stored.size and stored[s] < copies * base[r]:
            s += 1
        first, total = s, 0.0  # how far the row moves at most, and what its rounding grows with
        while s < stored.size and stored[s] < copies * (base[r] + 1):
            for p in range(bounds[s], bounds[s + 1]):
                total += abs(coefficients[p])
            s += 1
        low = shift - 2.0 * of_margin(X.shape[1], unit, longest + total, shift)
        for i in range(products.shape[1]):
            near[r] |= products[r, i] >= low  # of neurons that have not moved
            for moved in range(first, s):
                value = np.float64(products[r, i])
                for p in range(bounds[moved], bounds[moved + 1]):
                    value += coefficients[p] * of_inputs[i, inputs[p]]
                near[r] |= value >= low
    return near


@compiled(allocates=True)
def rows_reaching(products, low):
    """Return in which rows of products (rows, k) one is at least ``low``, (rows,). Cost: O(k) per row."""
    near = np.zeros(len(products), np.bool_)
    for r in range(len(products)):
        for i in range(products.shape[1]):
            near[r] |= products[r, i] >= low
    return near


@compiled
def which_fire(values, shift, reach, fires, rows, pairs):
    """Write to ``fires`` (k, n) 1 where values (k, n) are above the shift by more than reach (n,), 0 elsewhere.

    Places that are as close to the shift as that are written to ``rows`` and ``pairs``, as many as there is room for.
    Return how many there are.
    """
    found = 0
    for i in range(values.shape[0]):
        close = 0
        for r in range(values.shape[1]):
            above = values[i, r] - shift
            fires[i, r] = 1.0 if above > reach[r] else 0.0
            close += 1 if abs(above) <= reach[r] else 0
        if close == 0:
            continue
        for r in range(values.shape[1]):
            if abs(values[i, r] - shift) <= reach[r]:
                if found < rows.size:
                    rows[found] = i
                    pairs[found] = r
                found += 1
    return found
