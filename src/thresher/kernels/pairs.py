"""Loops over (neuron, input) pairs, stored by neuron: ``neurons`` (k,), ``bounds`` (k + 1,), ``inputs`` (pairs,).

Both the neurons and the inputs of each neuron ascend. A pair is at ``bounds[j] <= p < bounds[j + 1]`` for
neuron ``neurons[j]``.
"""

from __future__ import annotations

import numpy as np

from thresher.kernels import compiled

__all__ = [
    "add_gram_product",
    "collect_above",
    "count_cofiring",
    "count_common",
    "look_at",
    "materialise",
    "merge_coefficients",
]


@compiled
def collect_above(values, low):
    """Return the (rows, columns) of all entries of ``values`` (rows, columns) that are >= low, row by row."""
    total = 0
    for r in range(values.shape[0]):
        for i in range(values.shape[1]):
            total += values[r, i] >= low
    rows, columns = np.empty(total, np.int64), np.empty(total, np.int32)
    p = 0
    for r in range(values.shape[0]):
        if p == total:
            break
        for i in range(values.shape[1]):
            if values[r, i] >= low:
                rows[p], columns[p] = r, i
                p += 1
    return rows, columns


@compiled
def materialise(neurons, start, stored, bounds, inputs, coefficients, X):
    """Return weights (k, d) of ascending ``neurons`` (k,): start (k, d) + sum of coefficients times inputs."""
    weights = start.astype(np.float64)
    s = np.searchsorted(stored, neurons[0]) if neurons.size else 0
    for j in range(neurons.size):
        while s < stored.size and stored[s] < neurons[j]:
            s += 1
        if s < stored.size and stored[s] == neurons[j]:
            for p in range(bounds[s], bounds[s + 1]):
                c = coefficients[p]
                for k in range(X.shape[1]):
                    weights[j, k] += c * X[inputs[p], k]
    return weights


@compiled
def look_at(places, weights, inputs, X):
    """Return <weights[places[p]], X[inputs[p]]> for each p, summed from left to right in float64."""
    values = np.empty(places.size)
    for p in range(places.size):
        value = 0.0
        for k in range(X.shape[1]):
            value += weights[places[p], k] * X[inputs[p], k]
        values[p] = value
    return values


@compiled
def merge_coefficients(neurons, bounds, inputs, coefficients, firing, firing_bounds, firing_inputs, change):
    """Add ``change`` (firing pairs,) to stored coefficients: the union of both sets of pairs, ascending."""
    out_neurons = np.empty(neurons.size + firing.size, np.int64)
    out_bounds = np.zeros(neurons.size + firing.size + 1, np.int64)
    out_inputs = np.empty(inputs.size + firing_inputs.size, np.int32)
    out = np.empty(inputs.size + firing_inputs.size)
    a = b = rows = q = 0
    while a < neurons.size or b < firing.size:
        take_a = b == firing.size or (a < neurons.size and neurons[a] <= firing[b])
        take_b = a == neurons.size or (b < firing.size and firing[b] <= neurons[a])
        s, s_end = (bounds[a], bounds[a + 1]) if take_a else (0, 0)
        f, f_end = (firing_bounds[b], firing_bounds[b + 1]) if take_b else (0, 0)
        out_neurons[rows] = neurons[a] if take_a else firing[b]
        while s < s_end or f < f_end:
            from_stored = f == f_end or (s < s_end and inputs[s] <= firing_inputs[f])
            from_change = s == s_end or (f < f_end and firing_inputs[f] <= inputs[s])
            out_inputs[q] = inputs[s] if from_stored else firing_inputs[f]
            out[q] = 0.0
            if from_stored:
                out[q] += coefficients[s]
                s += 1
            if from_change:
                out[q] += change[f]
                f += 1
            q += 1
        a += take_a
        b += take_b
        rows += 1
        out_bounds[rows] = q
    return out_neurons[:rows].copy(), out_bounds[: rows + 1].copy(), out_inputs[:q].copy(), out[:q].copy()


@compiled
def count_common(neurons_a, bounds_a, inputs_a, neurons_b, bounds_b, inputs_b):
    """Return the number of pairs that stand in both sets."""
    a = b = common = 0
    while a < neurons_a.size and b < neurons_b.size:
        if neurons_a[a] < neurons_b[b]:
            a += 1
        elif neurons_a[a] > neurons_b[b]:
            b += 1
        else:
            p, q = bounds_a[a], bounds_b[b]
            while p < bounds_a[a + 1] and q < bounds_b[b + 1]:
                if inputs_a[p] < inputs_b[q]:
                    p += 1
                elif inputs_a[p] > inputs_b[q]:
                    q += 1
                else:
                    common, p, q = common + 1, p + 1, q + 1
            a, b = a + 1, b + 1
    return common


@compiled
def count_cofiring(bounds, inputs, counts):
    """Add to ``counts`` (n, n), for each two inputs, the number of neurons that fire on both."""
    for j in range(bounds.size - 1):
        for p in range(bounds[j], bounds[j + 1]):
            for q in range(bounds[j], bounds[j + 1]):
                counts[inputs[p], inputs[q]] += 1


@compiled
def add_gram_product(bounds, inputs, X, vector, out):
    """Add to ``out`` (n,) the product of (K o C) with ``vector`` (n,), neuron by neuron: never an n x n matrix."""
    push = np.empty(X.shape[1])
    for j in range(bounds.size - 1):
        push[:] = 0.0
        for p in range(bounds[j], bounds[j + 1]):
            for k in range(X.shape[1]):
                push[k] += vector[inputs[p]] * X[inputs[p], k]
        for p in range(bounds[j], bounds[j + 1]):
            value = 0.0
            for k in range(X.shape[1]):
                value += push[k] * X[inputs[p], k]
            out[inputs[p]] += value
