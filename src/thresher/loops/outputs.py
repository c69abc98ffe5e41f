"""Outputs of a network on new inputs, from the pairs that fire: few of them, where neurons have not moved far."""

from __future__ import annotations

import numpy as np

from thresher.loops import compiled
from thresher.loops.rounding import STRETCH
from thresher.loops.screen import CHUNK, guard_of, level_of, multiply_rows, room_for
from thresher.loops.search import dots, places_at_least

__all__ = ["add_outputs"]


@compiled
def _write_vector(first, last, inputs, coefficients, X, vector, out):
    """Write to ``out`` (d,) the sum of coefficients times inputs X, made in ``vector`` (d,); return its norm."""
    for k in range(vector.size):
        vector[k] = 0.0
    for p in range(first, last):
        c, x = coefficients[p], X[inputs[p]]
        for k in range(vector.size):
            vector[k] += c * x[k]
    square = 0.0
    for k in range(vector.size):
        square += vector[k] * vector[k]
        out[k] = vector[k]
    return np.sqrt(square)


@compiled
def add_outputs(rows, added, X, shift, sums):
    """Add to ``sums`` (k,) what start rows, moved, add to the outputs on inputs X (k, padded d), without 1/sqrt(m).

    ``rows`` are ``PredictedRows``, ``added`` is what was added to their neurons. A pair is looked at if its start
    pre-activation is so close to the threshold that what was added may take it there.
    """
    stored, bounds, inputs, coefficients, trained = added
    (k, padded), d, copies = X.shape, trained.shape[1], rows.signs.size // rows.base.size
    screened, rounded, whole = rows.weights.size > 0, rows.rounded, room_for(rows.rounded_inputs)
    found, values, changes = np.empty(k, np.int32), np.empty(k, X.dtype), np.zeros(k, X.dtype)
    vector, vectors, moved = np.empty(d), np.zeros((copies, padded), X.dtype), np.zeros(copies, np.bool_)
    s = np.searchsorted(stored, copies * rows.base[0])
    for r in range(rows.base.size):
        if screened and r % CHUNK == 0:
            multiply_rows(rounded, r, min(r + CHUNK, rows.base.size), rows.rounded_inputs, whole)
        reach = 0.0
        for twin in range(copies):
            neuron = copies * rows.base[r] + twin
            while s < stored.size and stored[s] < neuron:
                s += 1
            moved[twin] = s < stored.size and stored[s] == neuron
            if moved[twin]:
                norm = _write_vector(bounds[s], bounds[s + 1], inputs, coefficients, trained, vector, vectors[twin])
                reach = max(reach, norm)
        level = shift - STRETCH * reach
        if screened:
            least = level_of(rounded, r, rows.rounded_inputs, guard_of(rounded, r, rows.rounded_inputs, d), level)
            count = places_at_least(whole[r % CHUNK], k, least, found)
            dots(rows.weights[r], X, found, count, values)
        else:
            count = places_at_least(rows.products[r], k, X.dtype.type(level), found)
            for c in range(count):
                values[c] = rows.products[r, found[c]]
        for twin in range(copies):
            sign = rows.signs[copies * r + twin]
            if moved[twin]:
                dots(vectors[twin], X, found, count, changes)
            else:
                for c in range(count):
                    changes[c] = 0
            for c in range(count):
                sums[found[c]] += sign * max(values[c] + changes[c] - shift, 0.0)
