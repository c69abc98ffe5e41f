"""The judgement of a pair: on which side of the threshold it lies, and how sure that is.

A pre-activation in working precision decides unless it is closer to the threshold than its rounding, the *doubt*. Then
the sum that ``look_at`` computes, in float64 and in one fixed order, decides. Loops take ``doubt_of`` and ``decide``
from here and ``expiry_at`` from ``rounding.py``; the few lines around them stand in each loop, which does something of
its own with the answer.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import helper
from thresher.loops.numbers.hadamard import fill_hadamard_row
from thresher.loops.numbers.philox import fill_row
from thresher.loops.numbers.poisson import draw_row
from thresher.loops.pairs.by_neuron import dot, inner
from thresher.loops.rounding import FINE, of_change, of_look
from thresher.loops.structures import Inputs, Scratch

__all__ = [
    "GATHER", "add_products", "add_up", "cheaper_by_products", "correction", "decide", "doubt_of", "follow",
    "load_start", "make_scratch", "place_of", "sort_keys", "sum_of_products",
]  # fmt: skip

# Multiplications of contiguous numbers that cost as much as one with a gathered number. Not measured on the machine at
# hand: the two ways round differently, and what they give goes into the outputs.
GATHER = 6
# The same where a few numbers of each of several rows are gathered, in a loop of a few steps.
_SCATTERED = 30


def make_scratch(entries: int, inputs: Inputs) -> Scratch:
    """Return room for neurons with at most that many entries."""
    d, p = inputs.vectors.shape[1], 0 if inputs.turns is None else len(inputs.turns.signs)
    return Scratch(
        np.empty(entries), np.empty(entries + 1, np.int64), np.empty(entries, np.int64), np.empty(d), np.empty(d),
        np.full(2, -1), np.empty((2, p), np.float32),
    )  # fmt: skip


@njit(inline="always")
def add_up(moved, coefficients, listed, X, out):
    """Set ``out`` (d,) to the sum of coefficients times inputs, without the sign."""
    for k in range(X.shape[1]):
        out[k] = 0.0
    for q in range(moved.terms):
        for k in range(X.shape[1]):
            out[k] += coefficients[q] * X[listed[moved.first + q], k]


@helper
def add_products(value, i, moved, coefficients, listed, products):
    """Return a number plus the change of pre-activation i, from products (n, n) of inputs, in the order of entries."""
    for q in range(moved.terms):
        value += moved.sign * coefficients[q] * products[i, listed[moved.first + q]]
    return value


@helper
def follow(coefficients, firing, first, terms, products, listed, count, changes):
    """Set ``changes`` of the listed inputs to the sum of coefficients times products with others.

    The others are ``firing[first : first + terms]``.
    """
    kind = changes.dtype.type
    for c in range(count):
        changes[c] = 0
    for q in range(terms):
        coefficient, row = kind(coefficients[q]), products[firing[first + q]]
        for c in range(count):
            changes[c] += coefficient * kind(row[listed[c]])


@njit(inline="always")
def sum_of_products(coefficients, changes, count):
    """Return the sum of coefficients times changes: of c_q <x_q, v> it is the squared norm of v."""
    total = 0.0
    for q in range(count):
        total += np.float64(coefficients[q]) * np.float64(changes[q])
    return total


@njit(inline="always")
def cheaper_by_products(K, terms, d):
    """Return whether products K (n, n) of inputs are the cheaper way to what so many terms of a sum change."""
    return K.size > 0 and _SCATTERED * terms < d


@helper
def sort_keys(inputs, first, count, keys):
    """Write inputs and places 0..count - 1 as one number each, by ascending input. Rows are short and nearly sorted."""
    for q in range(count):
        keys[q] = (np.int64(inputs[first + q]) << 32) | q
    for gap in (701, 301, 132, 57, 23, 10, 4, 1):  # Shell's sort
        for q in range(gap, count if gap == 1 or count > 64 else 0):
            key, k = keys[q], q
            while k >= gap and keys[k - gap] > key:
                keys[k] = keys[k - gap]
                k -= gap
            keys[k] = key


@njit(inline="always")
def place_of(key):
    """Return the place that a key of :func:`sort_keys` is for."""
    return key & 0xFFFFFFFF


@helper
def load_start(neuron, constants, inputs, scratch):
    """Make the start weights of a neuron, counted from the first of the shard, unless they are there already."""
    row = constants.first_neuron + neuron
    if constants.twins:
        row >>= 1
    if scratch.holds[0] != row:
        _make_row(row, constants, inputs, inputs.row_bounds, inputs.turns, scratch)
        scratch.holds[0] = row


@helper
def _make_row(row, constants, inputs, bounds, turns, scratch):
    if turns is not None:  # Numba compiles one of the three: which one the types tell
        fill_hadamard_row(constants.seed, row, turns, scratch.room, scratch.weights)
    elif bounds is not None:
        draw_row(constants.seed, row, bounds, constants.tail, inputs.vectors, scratch.weights)
    else:
        fill_row(constants.seed, np.uint64(0), np.uint64(row), scratch.weights)


@helper
def decide(i, neuron, moved, listed, constants, inputs, scratch):
    """Return the pre-activation that decides, as ``look_at`` computes it, and a bound on its error.

    The coefficients stand in ``scratch``; they are added by ascending input.
    """
    load_start(neuron, constants, inputs, scratch)
    if scratch.holds[1] != neuron:
        sort_keys(listed, moved.first, moved.terms, scratch.order)
        scratch.holds[1] = neuron
    z = dot(scratch.weights, inputs.vectors[i])
    for q in range(moved.terms):
        place = place_of(scratch.order[q])
        other = inner(inputs.vectors, inputs.products, i, listed[moved.first + place])
        z += moved.sign * scratch.coefficients[place] * other
    error = of_look(moved.terms, inputs.vectors.shape[1], moved.total, constants.near)
    return z - inputs.offsets[i], constants.guards.exact + error


@njit(inline="always")
def doubt_of(moved, constants, d):
    """Return a bound on the rounding of a pre-activation of a neuron that was moved."""
    unit = FINE if moved.by_vector else constants.unit
    return constants.guards.made + of_change(moved.terms, d, unit, moved.total)


@njit(inline="always")
def correction(z, shift, sign, fires):
    """Return what a pair that flipped adds to the output, beyond what is linear in the step."""
    return sign * (z - shift if fires else shift - z)
