"""Compiled loops over the pairs that fire in a block of neurons: ``bounds`` (k + 1,) and ``inputs`` (pairs,).

They belong to the rivals, who share one thing with the search that they are measured against: its vector comparison.
"""

from __future__ import annotations

import numpy as np

from thresher.loops import compiled
from thresher.loops.instructions.places import places_at_least


@compiled(allocates=True)
def collect(z, shift, signs, outputs, inputs):
    """Return who fires in pre-activations z (k, n), and add what they say to ``outputs`` (n,).

    ``inputs`` is room for all pairs.
    """
    k, n = z.shape
    bounds, found = np.empty(k + 1, np.int64), np.empty(n, np.uint32)
    bounds[0] = p = 0
    for r in range(k):
        row = z[r]
        count = places_at_least(row, row.size, shift, found)
        for q in range(count):
            i = found[q]
            inputs[p + q] = i
            outputs[i] += signs[r] * (np.float64(row[i]) - shift)
        p += count
        bounds[r + 1] = p
    return bounds, inputs[:p].copy()


@compiled(allocates=True)
def move(bounds, inputs, factors, step, X, W):
    """W[r] -= factors[r] * (sum of step[i] X[i] over the inputs i that r fires on)."""
    change = np.empty(X.shape[1], X.dtype)
    for r in range(bounds.size - 1):
        if bounds[r] < bounds[r + 1]:
            change[:] = 0
            for p in range(bounds[r], bounds[r + 1]):
                for k in range(X.shape[1]):
                    change[k] += step[inputs[p]] * X[inputs[p], k]
            for k in range(X.shape[1]):
                W[r, k] -= factors[r] * change[k]


@compiled
def descend(bounds, inputs, factors, step, X, W, velocity, lost, momentum):
    """Move with momentum; ``lost`` (k, d) keeps what float32 rounds off, or small steps would vanish (Kahan)."""
    for r in range(bounds.size - 1):
        for k in range(X.shape[1]):
            velocity[r, k] *= momentum
        for p in range(bounds[r], bounds[r + 1]):
            c = factors[r] * step[inputs[p]]
            for k in range(X.shape[1]):
                velocity[r, k] += c * X[inputs[p], k]
        for k in range(X.shape[1]):
            wanted = -velocity[r, k] - lost[r, k]
            reached = W[r, k] + wanted
            lost[r, k] = (reached - W[r, k]) - wanted
            W[r, k] = reached


@compiled
def mark(bounds, inputs, out):
    """Write 1 into ``out`` (k, n) for every pair that fires, 0 elsewhere."""
    out[:] = 0
    for r in range(bounds.size - 1):
        for p in range(bounds[r], bounds[r + 1]):
            out[r, inputs[p]] = 1
