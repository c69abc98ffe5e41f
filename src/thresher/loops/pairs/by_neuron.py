"""Loops over (neuron, input) pairs, stored by neuron: ``neurons`` (k,), ``bounds`` (k + 1,), ``inputs`` (pairs,).

Both the neurons and the inputs of each neuron ascend. A pair is at ``bounds[j] <= p < bounds[j + 1]`` for
neuron ``neurons[j]``.
"""

from __future__ import annotations

import numpy as np

from thresher.loops import compiled, helper

__all__ = [
    "add_gram_product", "collect_above", "collect_within", "count_cofiring", "dot", "dot_pairs", "inner", "look_at",
    "materialise", "merge_coefficients", "pairs_missing",
]  # fmt: skip


@compiled(allocates=True)
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


@compiled(allocates=True)
def collect_within(values, reach):
    """Return the (rows, columns) of entries of ``values`` (rows, columns) with |value| <= reach[row], row by row."""
    within = np.zeros(values.shape[0] + 1, np.int64)
    for r in range(values.shape[0]):
        count = 0
        for i in range(values.shape[1]):
            count += abs(values[r, i]) <= reach[r]
        within[r + 1] = within[r] + count
    rows, columns = np.empty(within[-1], np.int64), np.empty(within[-1], np.int64)
    for r in range(values.shape[0]):
        p = within[r]
        if p == within[r + 1]:
            continue
        for i in range(values.shape[1]):
            if abs(values[r, i]) <= reach[r]:
                rows[p], columns[p] = r, i
                p += 1
    return rows, columns


@compiled(allocates=True)
def dot_pairs(vectors, rows, X, inputs):
    """Return <vectors[rows[p]], x_inputs[p]> for each pair, in float64 and one fixed order."""
    values = np.empty(rows.size)
    for p in range(rows.size):
        values[p] = dot(vectors[rows[p]], X[inputs[p]])
    return values


@compiled(allocates=True)
def materialise(neurons, start, stored, bounds, inputs, coefficients, X):
    """Return weights (k, d) of ascending ``neurons`` (k,): start (k, d) + sum of coefficients times inputs."""
    weights = np.empty(start.shape)
    weights[:] = start
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


@helper
def dot(a, b):
    """Return <a, b> in float64, summed in one fixed order: the arithmetic that decides which neurons fire."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = a.size - a.size % 8
    for k in range(0, whole, 8):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
        s4 += a[k + 4] * b[k + 4]
        s5 += a[k + 5] * b[k + 5]
        s6 += a[k + 6] * b[k + 6]
        s7 += a[k + 7] * b[k + 7]
    for k in range(whole, a.size):
        s0 += a[k] * b[k]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@helper
def inner(X, products, i, j):
    """Return <x_i, x_j>: from the products (n, n), or from the inputs X where those are not kept, (0, 0)."""
    return products[i, j] if products.size else dot(X[i], X[j])


@compiled(allocates=True)
def look_at(neurons, start, places, inputs, stored, bounds, stored_inputs, coefficients, X, products):
    """Return the pre-activation of each pair (neurons[places[p]], inputs[p]): <start, x_i> + sum of c[j] <x_i, x_j>.

    ``neurons`` (k,) ascend and have start weights ``start`` (k, d); ``products`` (n, n) are the inner products of X, or
    (0, 0): none are kept.
    """
    values = np.empty(places.size)
    for p in range(places.size):
        i = inputs[p]
        value = dot(start[places[p]], X[i])
        s = np.searchsorted(stored, neurons[places[p]])
        if s < stored.size and stored[s] == neurons[places[p]]:
            for q in range(bounds[s], bounds[s + 1]):
                value += coefficients[q] * inner(X, products, i, stored_inputs[q])
        values[p] = value
    return values


@compiled(allocates=True)
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


@compiled(allocates=True)
def pairs_missing(neurons_a, bounds_a, inputs_a, neurons_b, bounds_b, inputs_b):
    """Return the places of the pairs of a that do not stand in b, ascending."""
    missing = np.empty(inputs_a.size, np.int64)
    count = b = 0
    for a in range(neurons_a.size):
        while b < neurons_b.size and neurons_b[b] < neurons_a[a]:
            b += 1
        same = b < neurons_b.size and neurons_b[b] == neurons_a[a]
        q, end = (bounds_b[b], bounds_b[b + 1]) if same else (0, 0)
        for p in range(bounds_a[a], bounds_a[a + 1]):
            while q < end and inputs_b[q] < inputs_a[p]:
                q += 1
            if q == end or inputs_b[q] != inputs_a[p]:
                missing[count] = p
                count += 1
    return missing[:count].copy()


@compiled
def count_cofiring(bounds, inputs, places, sign, counts):
    """Add ``sign`` to ``counts`` (n, n), lower triangle, for each two inputs of each listed row."""
    for index in range(places.size):
        first, last = bounds[places[index]], bounds[places[index] + 1]
        for p in range(first, last):
            for q in range(first, p + 1):  # inputs ascend
                counts[inputs[p], inputs[q]] += sign


@compiled(allocates=True)
def add_gram_product(bounds, inputs, X, vectors, out):
    """Add to ``out`` (n, k) the product of (K o C) with ``vectors`` (n, k), neuron by neuron: never an n x n matrix."""
    pushes = np.empty((vectors.shape[1], X.shape[1]))
    for j in range(bounds.size - 1):
        pushes[:] = 0.0
        for p in range(bounds[j], bounds[j + 1]):
            i = inputs[p]
            for c in range(vectors.shape[1]):
                for k in range(X.shape[1]):
                    pushes[c, k] += vectors[i, c] * X[i, k]
        for p in range(bounds[j], bounds[j + 1]):
            for c in range(vectors.shape[1]):
                out[inputs[p], c] += dot(pushes[c], X[inputs[p]])
