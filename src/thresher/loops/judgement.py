"""The judgement of a pair: on which side of the threshold it lies, how sure that is, and when it must be asked again.

A pre-activation in working precision decides unless it is closer to the threshold than its rounding, the *doubt*. Then
the sum that ``look_at`` computes, in float64 and in one fixed order, decides. All loops judge here.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import compiled
from thresher.loops.pairs import dot
from thresher.loops.philox import fill_row
from thresher.loops.rounding import FINE, STRETCH, expiry_at, norm_at_most, of_change, of_look
from thresher.loops.structures import Judged, Scratch

__all__ = [
    "GATHER", "add_products", "add_up", "ascending", "doubt_of", "judge", "judge_entries", "load_start",
    "make_scratch", "norm_bound", "write_side",
]  # fmt: skip

GATHER = 6  # multiplications of contiguous numbers that cost as much as one with a gathered number


@njit(inline="always")
def make_scratch(entries, d):
    """Return room for neurons with at most that many entries."""
    return Scratch(
        np.empty(entries), np.empty(entries + 1, np.int64), np.empty(entries), np.empty(entries, np.int64), np.empty(d),
        np.empty(d), np.full(2, -1),
    )  # fmt: skip


@njit(inline="always")
def add_up(moved, vectors, out):
    """Set ``out`` (d,) to the sum of coefficients times inputs, without the sign."""
    for k in range(vectors.shape[1]):
        out[k] = 0.0
    for q in range(moved.terms):
        for k in range(vectors.shape[1]):
            out[k] += moved.coefficients[q] * vectors[moved.inputs[moved.first + q], k]


@njit(inline="always")
def add_products(value, i, moved, products):
    """Return a number plus the change of pre-activation i, from products (n, n) of inputs, in the order of entries."""
    for q in range(moved.terms):
        value += moved.sign * moved.coefficients[q] * products[i, moved.inputs[moved.first + q]]
    return value


@njit(inline="always")
def norm_bound(moved, inputs, vector, unit):
    """Return an upper bound of the norm of a displacement, by inner products or by the vector itself: the cheaper.

    The latter is written to ``vector`` (d,).
    """
    d = inputs.vectors.shape[1]
    square = 0.0
    if GATHER * moved.terms <= 2 * d:
        for q in range(moved.terms):
            row = 0.0
            j = moved.inputs[moved.first + q]
            for other in range(q):
                row += moved.coefficients[other] * inputs.fast_products[j, moved.inputs[moved.first + other]]
            # <x_j, x_j> is 1 but for the tolerance of norms
            square += moved.coefficients[q] * (2.0 * row + moved.coefficients[q] * STRETCH)
    else:
        add_up(moved, inputs.vectors, vector)
        square = dot(vector, vector)
    return norm_at_most(square, moved.terms, d, unit, moved.total)


@compiled
def ascending(inputs, first, count, order):
    """Write to ``order`` the places 0..count - 1 by ascending input (Shell's sort: rows are short)."""
    for q in range(count):
        order[q] = q
    for gap in (701, 301, 132, 57, 23, 10, 4, 1):
        for q in range(gap, count):
            place, k = order[q], q
            while k >= gap and inputs[first + order[k - gap]] > inputs[first + place]:
                order[k] = order[k - gap]
                k -= gap
            order[k] = place


@compiled
def load_start(neuron, constants, scratch):
    """Make the start weights of a neuron, counted from the first of the shard, unless they are there already."""
    row = constants.first_neuron + neuron
    if constants.twins:
        row >>= 1
    if scratch.holds[0] != row:
        fill_row(constants.seed, np.uint64(0), np.uint64(row), scratch.weights)
        scratch.holds[0] = row


@compiled
def _decide(i, neuron, moved, constants, inputs, scratch):
    """Return the pre-activation that decides, as ``look_at`` computes it: coefficients by ascending input."""
    load_start(neuron, constants, scratch)
    if scratch.holds[1] != neuron:
        ascending(moved.inputs, moved.first, moved.terms, scratch.order)
        scratch.holds[1] = neuron
    value = dot(scratch.weights, inputs.vectors[i])
    for q in range(moved.terms):
        place = scratch.order[q]
        value += moved.sign * moved.coefficients[place] * inputs.products[i, moved.inputs[moved.first + place]]
    return value


@njit(inline="always")
def doubt_of(moved, constants, d):
    """Return a bound on the rounding of a pre-activation of a neuron that was moved."""
    unit = FINE if moved.by_vector else constants.unit
    return constants.guards[0] + of_change(moved.terms, d, unit, moved.total)


@njit(inline="always")
def judge(z, doubt, i, neuron, moved, constants, inputs, scratch):
    """Return a pre-activation on the right side of the threshold, a bound on its error, and the number of looks."""
    error, looks = doubt, 0
    if abs(z - constants.shift) <= doubt:
        z = _decide(i, neuron, moved, constants, inputs, scratch)
        error = constants.guards[1] + of_look(moved.terms, inputs.vectors.shape[1], moved.total, constants.shift)
        looks = 1
    return z, error, looks


@njit(inline="always")
def write_side(lists, p, z, error, drift, constants):
    """Write down whether entry p fires and when that may change; return the latter."""
    lists.side[p] = z >= constants.shift
    lists.expiry[p] = expiry_at(drift, abs(z - constants.shift) - error, constants.unit)
    return lists.expiry[p]


@njit(inline="always")
def judge_entries(lists, r, count, drift, moved, constants, inputs, scratch, corrections):
    """Judge the first ``count`` of the entries in ``scratch`` from their values there; add corrections of flips.

    All are entries of row r, whose soonest expiry is brought forward.
    """
    shift, first, linear, soonest = constants.shift, lists.begin[r], lists.linear[r], lists.soonest[r]
    neuron, doubt = np.int64(lists.neurons[r]), doubt_of(moved, constants, inputs.vectors.shape[1])
    looks = on = off = 0
    for index in range(count):
        p = scratch.entries[index]
        i, then = lists.inputs[p], p - first < linear
        z, error, more = judge(scratch.values[index], doubt, i, neuron, moved, constants, inputs, scratch)
        looks += more
        if (z >= shift) != then and not more and not moved.by_vector:
            # It flips, and its value goes into the outputs: in float64, whatever decided.
            z = add_products(np.float64(lists.start[p]), i, moved, inputs.products)
        soonest = min(soonest, write_side(lists, p, z, error, drift, constants))
        if lists.side[p] != then:
            corrections[i] += lists.sign[r] * (z - shift if lists.side[p] else shift - z)
            on += lists.side[p]
            off += not lists.side[p]
    lists.soonest[r] = soonest
    return Judged(looks, on, off)
