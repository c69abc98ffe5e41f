"""Outputs of a network with Hadamard start rows: products of start rows come from a transform, a tile at a time.

A neuron that has moved by v fires on x only where <w(0), x> >= b - |v| |x|; <v, x> is added to the products of these
pairs alone. Twins with displacements v and v' are looked at together, by the centre (v + v') / 2 and the half
(v - v') / 2; those that never moved cancel. Which pairs are looked at, and what each adds, depends on nothing but its
row and its input.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import compiled, helper
from thresher.loops.instructions.butterflies import TILE, transform_tile
from thresher.loops.instructions.places import ZERO, places_in_rows
from thresher.loops.instructions.vectors import dot_pairs, sum_rows
from thresher.loops.numbers.hadamard import GROUP, fill_lengths, fill_signs
from thresher.loops.rounding import STRETCH, norm_of_sum, of_margin

__all__ = ["add_transformed"]

_FLOAT = np.float32
_UNIT = 2.0**-24
_SMALLEST, _LARGEST = 1e-26, 1e36  # squares whose sum float32 holds
_NEVER = np.float32(np.inf)
_CANCELLED = 256.0  # of its terms to a sum: from this ratio of sizes on, float32 would lose too much of it


@njit(inline="always")
def _level(reach, d, shift):
    """Return the product below which a row does not reach the shift by that change."""
    return _FLOAT(shift - reach - 2.0 * of_margin(d, _UNIT, reach, shift))


@helper(sums=True)
def _halve(one, other):
    """Replace two vectors by their mean and half of their difference; return the square of the norm of the mean."""
    square = _FLOAT(0)
    for k in range(one.size):
        a, b = one[k], other[k]
        one[k], other[k] = _FLOAT(0.5) * (a + b), _FLOAT(0.5) * (a - b)
        square += one[k] * one[k]
    return np.float64(square)


@helper
def _sum_finely(coefficients, inputs, first, count, X, vector):
    """Set a vector to a sum of coefficients times inputs, as ``sum_rows`` does, but add in float64."""
    for k in range(vector.size):
        total = 0.0
        for q in range(first, first + count):
            total += coefficients[q] * np.float64(X[inputs[q], k])
        vector[k] = total


@helper
def _displace(first, last, twins, added, shift, terms, centres, halves, levels, inner):
    """Write what training added to rows ``first`` to ``last - 1``, and the levels of products from which they count.

    ``levels`` are those of rows; ``inner`` of twins those from which they count with the change by their half added.
    """
    stored, bounds, inputs, coefficients, X = added
    d, copies = X.shape[1], 2 if twins else 1
    s = np.searchsorted(stored, copies * first)
    for r in range(last - first):
        reach, moved = 0.0, False
        for twin in range(copies):
            vector = halves[r] if twin else centres[r]
            if s < stored.size and stored[s] == copies * (first + r) + twin:
                begin, count, total = bounds[s], bounds[s + 1] - bounds[s], 0.0
                for q in range(count):
                    terms[q] = coefficients[begin + q]
                    total += abs(coefficients[begin + q])
                square = sum_rows(terms, terms, inputs, begin, count, X, vector)
                norm = norm_of_sum(np.float64(square), count, d, _UNIT, total)
                if total > _CANCELLED * norm:
                    _sum_finely(coefficients, inputs, begin, count, X, vector)
                reach, moved = max(reach, norm), True
                s += 1
            else:
                for k in range(d):
                    vector[k] = 0
        levels[r] = _level(reach, d, shift)
        if twins:
            square = _halve(centres[r], halves[r]) if moved else 0.0
            # Of the centre, whose rounding the margin of the level covers, unless its square left float32.
            norm = STRETCH * np.sqrt(square) if _SMALLEST < square < _LARGEST else reach
            inner[r] = _level(norm, d, shift)
            if not moved:
                levels[r] = _NEVER


@njit(inline="always")
def _keep_near(products, changes, inner, found, count):
    """Keep of the pairs found, and of changes, those which a change may take to the shift; return how many."""
    kept = ZERO
    for c in range(count):
        place, change = found[c], changes[c]
        found[kept], changes[kept] = place, change
        kept += np.uint64(products[place] + abs(change) >= inner[place // TILE])
    return np.int64(kept)


@compiled
def add_transformed(seed, first, last, tiles, X, added, coefficients, shift, room, sums):
    """Add to ``sums`` (tiles * TILE,) what start rows ``first`` to ``last - 1`` add to the outputs on rotated inputs.

    ``tiles`` (tiles, p, TILE) are those, X (tiles * TILE, padded d) the inputs themselves. ``added`` are neurons that
    moved, bounds, inputs and coefficients (see ``Weights``), and the inputs of training, padded. ``coefficients`` are
    by what the rows' activations are multiplied; ``first`` is that of a block. Cost: O(log p) additions a pair, O(d)
    a coefficient and a pair near the threshold.
    """
    p, twins = tiles.shape[1], room.halves.shape[0] > 0
    products = room.tile.reshape(-1)
    for begin in range(first, last, len(room.centres)):
        end = min(begin + len(room.centres), last)
        room.levels[:] = _NEVER
        _displace(
            begin, end, twins, added, shift, room.terms, room.centres, room.halves, room.levels, room.inner
        )  # fmt: skip
        for block in range(begin // p, -(-end // p)):
            fill_signs(seed, block, room.signs[block - begin // p])
            fill_lengths(seed, block * p, p, room.lengths[block - begin // p])
        for t in range(tiles.shape[0]):
            total = sums[t * TILE : (t + 1) * TILE]
            for base in range(0, end - begin, p):
                rows = min(p, end - begin - base)
                rows += -rows % GROUP
                transform_tile(
                    tiles[t], room.signs[base // p], room.lengths[base // p], room.tile, 0, rows, 0, room.tile
                )  # fmt: skip
                count = places_in_rows(products, room.levels, base, rows, room.found)
                if not twins:
                    dot_pairs(room.centres, base, X, t * TILE, TILE, room.found, count, room.values)
                    for c in range(count):
                        place = room.found[c]
                        margin = np.float64(products[place] + room.values[c]) - shift
                        total[place % TILE] += coefficients[begin - first + base + place // TILE] * max(margin, 0.0)
                    continue
                dot_pairs(room.halves, base, X, t * TILE, TILE, room.found, count, room.changes)
                count = _keep_near(products, room.changes, room.inner[base:], room.found, count)
                dot_pairs(room.centres, base, X, t * TILE, TILE, room.found, count, room.values)
                for c in range(count):
                    place, change = room.found[c], np.float64(room.changes[c])
                    margin = np.float64(products[place] + room.values[c]) - shift
                    added_here = max(margin + change, 0.0) - max(margin - change, 0.0)
                    total[place % TILE] += coefficients[begin - first + base + place // TILE] * added_here
