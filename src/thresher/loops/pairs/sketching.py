"""Sketches of the implicit Jᵀ, pair by pair: ``out`` (n, s) gains S's product with the non-zeros of each column."""

from __future__ import annotations

import numpy as np

from thresher.loops import compiled

__all__ = ["add_gaussian", "add_hadamard", "add_sparse_sign", "add_tensor"]


@compiled
def add_gaussian(bounds, inputs, factors, X, S, out):
    """Dense blocks: ``S`` (neurons, s, d) holds the columns of the sketch that belong to each neuron."""
    for j in range(bounds.size - 1):
        for p in range(bounds[j], bounds[j + 1]):
            i = inputs[p]
            for row in range(out.shape[1]):
                value = 0.0
                for k in range(X.shape[1]):
                    value += S[j, row, k] * X[i, k]
                out[i, row] += factors[j] * value


@compiled(allocates=True)
def add_sparse_sign(bounds, inputs, factors, X, words, edges, out):
    """One entry ±1 in each of the row blocks given by ``edges`` (blocks + 1,), from ``words`` (d * blocks, neurons)."""
    d, blocks = X.shape[1], edges.size - 1
    rows, signs = np.empty(d * blocks, np.int64), np.empty(d * blocks)
    for j in range(bounds.size - 1):
        for c in range(d * blocks):
            word = np.uint64(words[c, j])
            first, last = edges[c % blocks], edges[c % blocks + 1]
            rows[c] = first + np.int64(((word >> np.uint64(1)) * np.uint64(last - first)) >> np.uint64(31))
            signs[c] = factors[j] if word & np.uint64(1) else -factors[j]
        for p in range(bounds[j], bounds[j + 1]):
            i = inputs[p]
            c = 0
            for k in range(d):
                for _ in range(blocks):
                    out[i, rows[c]] += signs[c] * X[i, k]
                    c += 1


@compiled(allocates=True)
def add_hadamard(neurons, bounds, inputs, factors, X, words, sampled, out):
    """Sampled rows of H D with H = H_neurons ⊗ H_features: a short transform of each x_i, then one sign per row.

    ``words`` (d, neurons) hold the random signs D, ``sampled`` (s,) the rows of H.
    """
    d = X.shape[1]
    padded = 1
    while padded < d:
        padded *= 2
    transformed = np.empty(padded)
    parity = np.empty(sampled.size)
    for j in range(bounds.size - 1):
        for row in range(sampled.size):
            common = (sampled[row] // padded) & neurons[j]
            odd = 0
            while common:
                common &= common - 1
                odd ^= 1
            parity[row] = -factors[j] if odd else factors[j]
        for p in range(bounds[j], bounds[j + 1]):
            i = inputs[p]
            transformed[:] = 0.0
            for k in range(d):
                transformed[k] = X[i, k] if words[k, j] & 1 else -X[i, k]
            half = 1
            while half < padded:
                for first in range(0, padded, 2 * half):
                    for k in range(first, first + half):
                        a, b = transformed[k], transformed[k + half]
                        transformed[k], transformed[k + half] = a + b, a - b
                half *= 2
            for row in range(sampled.size):
                out[i, row] += parity[row] * transformed[sampled[row] & (padded - 1)]


@compiled
def add_tensor(bounds, inputs, factors, words, out):
    """CountSketch of the sparse vector over neurons of each column: one bucket and sign per neuron, from ``words``."""
    for j in range(bounds.size - 1):
        word = np.uint64(words[j])
        row = np.int64(((word >> np.uint64(1)) * np.uint64(out.shape[1])) >> np.uint64(31))
        value = factors[j] if word & np.uint64(1) else -factors[j]
        for p in range(bounds[j], bounds[j + 1]):
            out[inputs[p], row] += value
