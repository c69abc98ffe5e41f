"""Loops over firing pairs that are kept as bits: rows (neurons, n / 8) of bytes, the highest bit first.

Inputs are taken in groups that stay in the cache: a neuron meets those of a group before the next one is fetched.
"""

from __future__ import annotations

import numpy as np

from thresher.loops import compiled

__all__ = ["add_outputs", "add_pushes", "count_flips"]

_BYTES = 1 << 22  # of a group of inputs


@compiled(sums=True)
def add_pushes(bits, factors, X, out):
    """Add to ``out`` (k, d) for each neuron the inputs X (n, d) that it fires on, times their ``factors`` (n,)."""
    d = X.shape[1]
    group = max(_BYTES // (8 * d * X.itemsize), 1)  # bytes of bits
    for first in range(0, bits.shape[1], group):
        for r in range(bits.shape[0]):
            for place in range(first, min(first + group, bits.shape[1])):
                byte, i = np.int64(bits[r, place]), 8 * place
                while byte:
                    if byte & 128:
                        factor = factors[i]
                        for k in range(d):
                            out[r, k] += factor * X[i, k]
                    byte = (byte << 1) & 255
                    i += 1


@compiled(sums=True)
def add_outputs(bits, vectors, X, out):
    """Add to ``out`` (n,) the products of each input X (n, d) with the ``vectors`` (k, d) of the neurons that fire."""
    d = X.shape[1]
    group = max(_BYTES // (8 * d * X.itemsize), 1)
    for first in range(0, bits.shape[1], group):
        for r in range(bits.shape[0]):
            for place in range(first, min(first + group, bits.shape[1])):
                byte, i = np.int64(bits[r, place]), 8 * place
                while byte:
                    if byte & 128:
                        total = X.dtype.type(0.0)
                        for k in range(d):
                            total += vectors[r, k] * X[i, k]
                        out[i] += total
                    byte = (byte << 1) & 255
                    i += 1


@compiled
def count_flips(before, after, counts):
    """Add to ``counts`` (n, n), lower triangle, what changes when neurons fire as ``after`` instead of ``before``.

    Cost: O(flips x firing inputs) per neuron.
    """
    n = counts.shape[0]
    fires, flipped = np.empty(n, np.int64), np.empty(n, np.int64)
    for r in range(before.shape[0]):
        for sign in (-1, 1):  # pairs that cease, with all that fired; pairs that begin, with all that fire
            mine, other = (before, after) if sign == -1 else (after, before)
            count = flips = 0
            for place in range(before.shape[1]):
                byte = np.int64(mine[r, place])
                if not byte:
                    continue
                new = byte & ~np.int64(other[r, place])
                for bit in range(8):
                    mask = 128 >> bit
                    if byte & mask:
                        fires[count] = 8 * place + bit
                        count += 1
                    if new & mask:
                        flipped[flips] = count - 1
                        flips += 1
            done = 0
            for f in range(flips):
                place = flipped[f]
                i = fires[place]
                for q in range(place + 1):
                    counts[i, fires[q]] += sign
                done = f + 1
                for q in range(place + 1, count):
                    if done < flips and flipped[done] == q:
                        done += 1  # two that flip are counted once, by the later one
                    else:
                        counts[fires[q], i] += sign
