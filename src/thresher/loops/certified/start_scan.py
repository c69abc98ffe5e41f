"""The scan of the start weights: which neurons fire, the first step, watchlists.

One block of rows at a time, while it is in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from thresher.loops import compiled, helper
from thresher.loops.certified.judgement import (
    GATHER,
    add_products,
    add_up,
    cheaper_by_products,
    decide,
    doubt_of,
    follow,
    load_start,
    make_scratch,
    sum_of_products,
)  # fmt: skip
from thresher.loops.instructions.places import EXTRA, ZERO, pick, places_at_least
from thresher.loops.instructions.vectors import dot_rows, sum_rows
from thresher.loops.pairs.by_neuron import dot
from thresher.loops.rounding import expiry_at, norm_at_most, norm_of_sum, rounded_down, safely_below
from thresher.loops.structures import Displacement, Inputs, Scanned, ScanRoom, ShardConstants, StartRows

__all__ = ["scan_block"]


@njit(inline="always")
def _reaching(values, near, count, level, fired, kept_inputs):
    """Write those near inputs to ``kept_inputs`` whose value reaches the level, without the fired; return how many."""
    kept = ZERO
    for c in range(count):
        i = near[c]
        kept_inputs[kept] = i
        kept += np.uint64((values[i] >= level) & ~fired[i])
    return np.int64(kept)


@njit(inline="always")
def _any_up_to(values, count, high):
    """Return whether any of the first ``count`` values is not above ``high``."""
    found = False
    for c in range(count):
        found |= values[c] <= high
    return found


@helper
def _keep_firing(fires, z, candidates, known, neuron, constants, inputs, scratch):
    """Keep of the candidates, with their start pre-activations, those that fire; near the threshold float64 decides.

    Returns their number, whether the first step's change is still ``known``, and the number of looks. It is not where
    rounding made the wrong inputs fire when it was computed.
    """
    count, looks, shift = 0, 0, constants.shift
    for c in range(candidates):
        i, start = fires[c], z[c]
        if start <= shift + constants.guards.made:
            load_start(neuron, constants, inputs, scratch)
            looks += 1
            fires_then = dot(scratch.weights, inputs.vectors[i]) - inputs.offsets[i] >= shift
            known &= fires_then == (start >= z.dtype.type(shift))
            if not fires_then:
                continue
        fires[count], z[count] = i, start
        count += 1
    return count, known, looks


@njit(inline="always")
def _mark(marks, listed, count, value):
    for c in range(count):
        marks[listed[c]] = value


@njit(inline="always")
def _keep_near(start, changes, listed, count, sign, low):
    """Keep of the listed inputs those that may be >= low after their changes; return how many.

    With a sign of 0 changes have either sign. No branches: they would be hard to predict.
    """
    kept, low = ZERO, start.dtype.type(low)
    either, sign = sign == 0, start.dtype.type(sign)
    for c in range(count):
        i, value, change = listed[c], start[c], changes[c]
        near = value + (abs(change) if either else sign * change) >= low
        listed[kept], start[kept], changes[kept] = i, value, change
        kept += np.uint64(near)
    return np.int64(kept)


@njit(inline="always")
def _any_near(start, changes, count, sign, shift, doubt):
    """Return whether any pre-activation is so near the threshold after its change that its side is not sure.

    Changes are known up to the ``doubt``. With a sign of 0 they have either sign.
    """
    near = False
    for c in range(count):
        value, change = np.float64(start[c]) - shift, np.float64(changes[c])
        near |= (abs(value + sign * change) <= doubt) | ((sign == 0) & (abs(abs(value) - abs(change)) <= doubt))
    return near


@njit(inline="always")
def _move(start, changes, firing, count, sign, level, shift, doubt, places, z, margins):
    """Write to ``z`` the pre-activations after their change, and what is sure of their margins; return their number.

    Those of inputs that do not fire at the start are left out if they are below the level.
    """
    kept = ZERO
    for c in range(count):
        value = np.float64(start[c]) + sign * np.float64(changes[c])
        places[kept], z[kept], margins[kept] = c, value, abs(value - shift) - doubt
        kept += np.uint64((c < firing) | (value >= level))
    return np.int64(kept)


@helper
def _settle(listed, start, kept, neuron, moved, fine, by_vector, constants, inputs, scratch, places, z, margins):
    """Look again at pre-activations: those that are not sure, and if ``fine`` those that go into the outputs.

    The first of the listed inputs are those that fire at the start. Returns the number of looks.
    """
    X, looks = inputs.vectors, 0
    for q in range(kept):
        c = places[q]
        i = listed[c]
        if margins[q] <= 0.0:
            z[q], error = decide(i, neuron, moved, listed, constants, inputs, scratch)
            margins[q] = abs(z[q] - constants.shift) - error
            looks += 1
        elif fine and z[q] >= constants.shift:
            if by_vector:
                z[q] = start[c] + moved.sign * dot(scratch.vector, X[i])
            else:
                z[q] = add_products(np.float64(start[c]), i, moved, scratch.coefficients, listed, inputs.products)
    return looks


@njit(inline="always")
def _write(listed, start, firing, kept, places, z, margins, sign, shift, unit, soonest, entries, lists, sums):
    """Write entries of a watchlist; return the numbers of those that fire and that flipped, and the soonest expiry."""
    after = flips = 0
    for q in range(kept):
        c, p = places[q], np.uint64(entries + q)
        i, fires = listed[c], z[q] >= shift
        lists.inputs[p], lists.start[p], lists.side[p] = i, start[c], fires
        lists.expiry[p] = expiry_at(0.0, margins[q], unit)
        soonest = min(soonest, lists.expiry[p])
        sums[1, i] += sign * max(z[q] - shift, 0.0)
        after += fires
        flips += fires != (q < firing)
    return after, flips, soonest


@njit(inline="always")
def _take_step(step, scale, fires, count, max_correlation, coefficients, pushes):
    """Write the coefficients of the first step, twice; return the sum of their sizes, and how far others may move."""
    total = reach = 0.0
    for q in range(count):
        coefficients[q] = pushes[q] = -scale * step[fires[q]]
        total += abs(coefficients[q])
        reach += abs(coefficients[q]) * max_correlation[fires[q]]
    return total, reach


@njit(inline="always")
def _norm_by_products(coefficients, listed, count, terms, known, change, j, K, d, unit, total, changes):
    """Write what the first step adds to inputs that fire; return an upper bound of its norm."""
    if known:
        pick(change[j], listed, count, changes)
    else:
        follow(coefficients, listed, 0, terms, K, listed, count, changes)
    return norm_at_most(sum_of_products(coefficients, changes, count), count, d, unit, total)


@compiled
def _scan_rows(rows, room, scratch, step, moves, constants, inputs, sums, lists, used):
    """See :func:`scan_block`; it ``moves`` if the step is not 0. ``room`` and ``scratch`` are work arrays."""
    Z, vectors, signs, K, X = rows.products, inputs.fast_vectors, rows.signs, inputs.fast_products, inputs.vectors
    shift, guard, unit, twins = constants.shift, constants.guards.made, constants.unit, constants.twins
    row, entries = used
    (n, d), copies = X.shape, 2 if twins else 1
    last = signs.size // copies
    near, listed, start, changes = room.near, room.listed, room.start, room.changes
    fired, fast_vector, places, z, margins = room.fired, room.vector, room.places, room.z, room.margins
    coefficients, pushes, vector = scratch.coefficients, room.pushes, scratch.vector
    flips = before = after = looks = 0
    low, listed_from = Z.dtype.type(safely_below(shift, guard)), safely_below(shift - rows.depth, guard)
    for j in range(rows.first, last):
        if entries + copies * n > lists.inputs.size:
            return Scanned(j, row, entries, flips, before, after, looks)
        neuron, known = copies * (rows.place + j), rows.first_step_change.size > 0
        nearby = places_at_least(Z[j], n, Z.dtype.type(listed_from), near)
        count = _reaching(Z[j], near, nearby, low, fired, listed)
        pick(Z[j], listed, count, start)
        if _any_up_to(start, count, shift + guard):
            count, known, looked = _keep_firing(listed, start, count, known, neuron, constants, inputs, scratch)
            looks += looked
        if count == 0:
            continue
        width = rounded_down(constants.band * (np.sqrt(count) + 2.0), unit)
        total, reach = _take_step(step, constants.scale, listed, count, inputs.max_correlation, coefficients, pushes)
        moved = Displacement(1.0, np.int64(0), count, total, False)
        terms = count if moves else 0
        from_inputs = moves and not known and not cheaper_by_products(K, count, d)
        if from_inputs:
            square = np.float64(sum_rows(pushes, pushes, listed, np.int64(0), count, vectors, fast_vector))
            norm = norm_of_sum(square, count, d, unit, total)
        else:
            by_step = rows.first_step_change
            norm = _norm_by_products(coefficients, listed, count, terms, known, by_step, j, K, d, unit, total, changes)
        reach = min(reach, norm)
        doubt = doubt_of(moved, constants, d)
        # No pre-activation of an input that does not fire moves by more than the reach: what lies further below
        # stays below the band.
        level = safely_below(shift - width - reach, doubt)
        others, other_z, other_changes = listed[count:], start[count:], changes[count:]
        _mark(fired, listed, count, True)
        if level < listed_from:  # as for few rows
            nearby = places_at_least(Z[j], n, Z.dtype.type(level), near)
        candidates = _reaching(Z[j], near, nearby, Z.dtype.type(level), fired, others)
        pick(Z[j], others, candidates, other_z)
        _mark(fired, listed, count, False)
        if known:
            pick(rows.first_step_change[j], others, candidates, other_changes)
        elif from_inputs:
            dot_rows(fast_vector, vectors, listed, count + candidates, changes)
        else:
            follow(coefficients, listed, 0, terms, K, others, candidates, other_changes)
        either, level = 0.0 if twins else signs[j], safely_below(shift - width, doubt)
        candidates = count + _keep_near(other_z, other_changes, others, candidates, either, level)
        # A change in working precision may be off by more than a product of a row is.
        fine = moves and doubt - guard > constants.guards.working
        unsure = fine or _any_near(start, changes, candidates, either, shift, doubt)
        by_vector = fine and (not K.size or GATHER * count > 2 * d)
        if by_vector:
            add_up(moved, coefficients, listed, X, vector)
        for twin in range(copies):
            sign = signs[copies * j + twin]
            for q in range(count):
                sums[0, listed[q]] += sign * (start[q] - shift)
            kept = _move(
                start, changes, count, candidates, sign, shift - width - doubt, shift, doubt, places, z, margins
            )
            if unsure:
                moved = Displacement(sign, np.int64(0), count, total, False)
                looks += _settle(
                    listed, start, kept, neuron + twin, moved, fine, by_vector, constants, inputs, scratch, places, z,
                    margins,
                )  # fmt: skip
            firing, flipped, soonest = _write(
                listed, start, count, kept, places, z, margins, sign, shift, unit, width, entries, lists, sums
            )
            lists.neurons[row] = neuron + twin
            lists.sign[row], lists.begin[row], lists.length[row] = sign, entries, kept
            lists.linear[row] = lists.fired[row] = count
            lists.drift[row], lists.band[row], lists.soonest[row] = 0.0, width, soonest
            lists.seen[row] = -1 if flipped else 0
            row, entries = row + 1, entries + kept
            flips, before, after = flips + flipped, before + count, after + firing
    return Scanned(last, row, entries, flips, before, after, looks)


def scan_block(
    rows: StartRows,
    step: NDArray[np.float64],
    constants: ShardConstants,
    inputs: Inputs,
    sums: NDArray[np.float64],
    lists: Any,
    used: tuple[int, int],
) -> Scanned:
    """Find which neurons fire at the start and after the first step, and write watchlists for those.

    ``constants`` have the guards of this block; ``step`` (n,) is the first step. ``sums`` (2, n) gains the outputs
    before and after. ``lists`` are watchlists with room, of which ``used`` = (neurons, entries) are taken; neurons with
    a pair that flipped get a ``seen`` of -1. Returns ``Scanned``.
    """
    n, working = len(inputs.vectors), rows.products.dtype
    start, changes = np.empty((2, 2 * n), working)
    z, margins = np.empty((2, n))
    room = ScanRoom(
        np.empty(n + EXTRA, lists.inputs.dtype), np.empty(2 * n, lists.inputs.dtype), start, changes,
        np.zeros(n, np.bool_), np.empty(n, working),
        np.zeros(inputs.fast_vectors.shape[1], working), np.empty(n, np.uint32), z, margins,
    )  # fmt: skip
    scratch, moves = make_scratch(n, inputs), bool(step.any())
    return _scan_rows(rows, room, scratch, step, moves, constants, inputs, sums, lists, used)
