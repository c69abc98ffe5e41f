"""Loops over firing pairs that are kept as bits: rows (neurons, n / 8) of bytes, the highest bit first.

Products over pairs fetch a row of an input for each of them, and so are as fast as the cache. Inputs therefore come as
*panels* (d / 64, n, 64) of 64 columns, and are met in groups of which one panel fits into the second-level cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.loops import compiled
from thresher.loops.instructions.places import trailing_zeros

__all__ = ["add_outputs", "add_pushes", "count_flips", "list_pairs", "panels_of"]

_GROUP = 128  # bytes of bits: 1024 inputs
_PANEL = 64  # columns of a panel: a number that the compiler knows


def panels_of(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows (n, d) as panels (d / 64, n, 64), filled up with zeros. Cost: O(nd)."""
    n, d = rows.shape
    panels = np.zeros((-(-d // _PANEL), n, _PANEL), rows.dtype)
    for place, panel in enumerate(panels):
        part = rows[:, place * _PANEL : (place + 1) * _PANEL]
        panel[:, : part.shape[1]] = part
    return panels


@compiled(allocates=True)
def list_pairs(bits):
    """Return the firing pairs by group of inputs and neuron: bounds (groups, k + 1) and inputs (pairs,)."""
    groups, k = (bits.shape[1] + _GROUP - 1) // _GROUP, bits.shape[0]
    bounds, total = np.empty((groups, k + 1), np.int64), 0
    for g in range(groups):
        bounds[g, 0] = total
        for r in range(k):
            for place in range(g * _GROUP, min((g + 1) * _GROUP, bits.shape[1])):
                byte = np.uint64(bits[r, place])
                byte -= (byte >> np.uint64(1)) & np.uint64(85)
                byte = (byte & np.uint64(51)) + ((byte >> np.uint64(2)) & np.uint64(51))
                total += np.int64((byte + (byte >> np.uint64(4))) & np.uint64(15))
            bounds[g, r + 1] = total
    inputs, p = np.empty(total, np.uint32), 0
    for g in range(groups):
        for r in range(k):
            for place in range(g * _GROUP, min((g + 1) * _GROUP, bits.shape[1])):
                byte = np.uint64(bits[r, place])
                while byte:
                    inputs[p] = 8 * place + 7 - np.int64(trailing_zeros(byte))
                    p += 1
                    byte &= byte - np.uint64(1)
    return bounds, inputs


@compiled(sums=True)
def add_pushes(bounds, inputs, factors, panels, out):
    """Add to ``out`` (d / 64, k, 64) for each neuron the inputs that it fires on, times their ``factors`` (n,)."""
    for panel in range(panels.shape[0]):
        for g in range(bounds.shape[0]):
            for r in range(bounds.shape[1] - 1):
                for p in range(bounds[g, r], bounds[g, r + 1]):
                    i = inputs[p]
                    factor = factors[i]
                    for k in range(_PANEL):
                        out[panel, r, k] += factor * panels[panel, i, k]


@compiled(sums=True)
def add_outputs(bounds, inputs, vectors, panels, out):
    """Add to ``out`` (n,) the products of each input with the ``vectors`` (d / 64, k, 64) of the neurons that fire."""
    for panel in range(panels.shape[0]):
        for g in range(bounds.shape[0]):
            for r in range(bounds.shape[1] - 1):
                for p in range(bounds[g, r], bounds[g, r + 1]):
                    i = inputs[p]
                    total = panels.dtype.type(0.0)
                    for k in range(_PANEL):
                        total += vectors[panel, r, k] * panels[panel, i, k]
                    out[i] += total


@compiled(allocates=True)
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
