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
from thresher.loops.instructions.places import EXTRA, ZERO, fast_dot, pick, places_at_least, places_of_ones
from thresher.loops.instructions.vectors import dot_rows, sum_rows
from thresher.loops.pairs.by_neuron import dot
from thresher.loops.rounding import expiry_at, norm_at_most, norm_of_sum, rounded_down, safely_below
from thresher.loops.screen import IN_CACHE, change_nearly, guard_of, level_of, multiply_rows, pick_bounds
from thresher.loops.structures import Displacement, Inputs, Scanned, ScanRoom, Screen, ShardConstants, StartRows

__all__ = ["scan_block"]


@njit(inline="always")
def _set_levels(screen, first, last, d, low, listed_from):
    """Write the guards of rounded rows ``first`` to ``last - 1``, and products of those that may reach two levels."""
    for j in range(first, last):
        slack = guard_of(screen.rows, j, screen.inputs, d)
        screen.slack[j - first] = slack
        screen.least[j - first] = level_of(screen.rows, j, screen.inputs, slack, low)
        screen.whole.levels[j - first] = level_of(screen.rows, j, screen.inputs, slack, listed_from)


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
def _keep_high(listed, z, count, low, high):
    """Keep the listed inputs with z >= low, and their z; return how many, and whether any is not above ``high``.

    No branches: which ones stay is hard to predict.
    """
    kept, unsure = ZERO, False
    for c in range(count):
        i, value = listed[c], z[c]
        listed[kept], z[kept] = i, value
        near = value >= low
        kept += np.uint64(near)
        unsure |= near & (value <= high)
    return np.int64(kept), unsure


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
def _keep_near(bounds, changes, listed, count, sign, low):
    """Keep of the listed inputs those whose bounds may be >= low after their changes; return how many.

    With a sign of 0 changes have either sign. No branches: they would be hard to predict.
    """
    kept, low = ZERO, bounds.dtype.type(low)
    either, sign = sign == 0, bounds.dtype.type(sign)
    for c in range(count):
        i, change = listed[c], changes[c]
        near = bounds[c] + (abs(change) if either else sign * change) >= low
        listed[kept], changes[kept] = i, change
        kept += np.uint64(near)
    return np.int64(kept)


@njit(inline="always")
def _any_near(start, changes, firing, count, sign, shift, doubt, fuzz):
    """Return whether any pre-activation is so near the threshold after its change that its side is not sure.

    Changes of the first ``firing`` inputs are known up to the ``doubt``, the others up to the ``fuzz``. With a sign of
    0 they have either sign.
    """
    near = False
    for c in range(count):
        value, change, error = np.float64(start[c]) - shift, np.float64(changes[c]), doubt if c < firing else fuzz
        near |= (abs(value + sign * change) <= error) | ((sign == 0) & (abs(abs(value) - abs(change)) <= error))
    return near


@njit(inline="always")
def _move(start, changes, firing, count, sign, level, shift, doubt, fuzz, places, z, margins):
    """Write to ``z`` the pre-activations after their change, and what is sure of their margins; return their number.

    Those of inputs that do not fire at the start are left out if they are below the level.
    """
    kept = ZERO
    for c in range(count):
        value, error = np.float64(start[c]) + sign * np.float64(changes[c]), doubt if c < firing else fuzz
        places[kept], z[kept], margins[kept] = c, value, abs(value - shift) - error
        kept += np.uint64((c < firing) | (value >= level))
    return np.int64(kept)


@helper
def _refine(listed, start, firing, kept, low, shift, moved, coefficients, vector, doubt, inputs, places, z, margins):
    """Compute again, in working precision, pre-activations above ``low``: they may begin to fire.

    From the vector that is added, or from products if that was not made.
    """
    for q in range(firing, kept):
        if z[q] >= low:
            i, change = listed[places[q]], 0.0
            if moved.by_vector:
                change = np.float64(fast_dot(vector, inputs.fast_vectors[i]))
            else:
                for k in range(moved.terms):
                    change += coefficients[k] * np.float64(inputs.fast_products[listed[k], i])
            z[q] = np.float64(start[places[q]]) + moved.sign * change
            margins[q] = abs(z[q] - shift) - doubt


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
def _nearly(coefficients, listed, terms, inputs, total, others, candidates, changes):
    """Write what the first step adds to other inputs, from coarse products; return by how much that may be off."""
    steps, step, error = inputs.coarse_products
    follow(coefficients, listed, 0, terms, steps, others, candidates, step, changes)
    return total * error


@njit(inline="always")
def _norm_by_products(coefficients, listed, count, terms, known, change, j, K, d, unit, total, changes):
    """Write what the first step adds to inputs that fire; return an upper bound of its norm."""
    if known:
        pick(change[j], listed, count, changes)
    else:
        follow(coefficients, listed, 0, terms, K, listed, count, 1.0, changes)
    return norm_at_most(sum_of_products(coefficients, changes, count), count, d, unit, total)


@compiled
def _scan_rows(rows, screen, room, scratch, step, moves, constants, inputs, sums, lists, used):
    """See :func:`scan_block`; it ``moves`` if the step is not 0. ``room`` and ``scratch`` are work arrays.

    It is compiled with a screen or without, and holds one of the two ways alone: where ``screen is None``, types tell.
    """
    Z, vectors, signs, K, X = rows.products, inputs.fast_vectors, rows.signs, inputs.fast_products, inputs.vectors
    shift, guard, unit, twins = constants.shift, constants.guards.made, constants.unit, constants.twins
    row, entries = used
    (n, d), copies = X.shape, 2 if twins else 1
    last = signs.size // copies
    near, listed, start, changes = room.near, room.listed, room.start, room.changes
    fired, fast_vector, places, z, margins = room.fired, room.vector, room.places, room.z, room.margins
    coefficients, pushes, vector = scratch.coefficients, room.pushes, scratch.vector
    flips = before = after = looks = 0
    low, listed_from, held = Z.dtype.type(safely_below(shift, guard)), safely_below(shift - rows.depth, guard), -1
    for j in range(rows.first, last):
        if entries + copies * n > lists.inputs.size:
            return Scanned(j, row, entries, flips, before, after, looks)
        here, neuron = j % IN_CACHE, copies * (rows.place + j)
        slack_of_change, terms = 0.0, 0
        if screen is None:
            nearby = places_at_least(Z[j], n, Z.dtype.type(listed_from), near)
            count = _reaching(Z[j], near, nearby, low, fired, listed)
            pick(Z[j], listed, count, start)
        else:
            if held != j - here:
                held = j - here
                _set_levels(screen, held, min(held + IN_CACHE, last), d, low, listed_from)
                multiply_rows(screen.rows, held, min(held + IN_CACHE, last), screen.inputs, screen.whole)
            slack, whole = screen.slack[here], screen.whole.sums[here]
            nearby = places_of_ones(screen.whole.reached[here], n, near)
            count = _reaching(whole, near, nearby, screen.least[here], fired, listed)
            dot_rows(rows.weights[j], vectors, listed, count, start)
        known = rows.first_step_change.size > 0
        count, unsure = _keep_high(listed, start, count, low, shift + guard)
        if unsure:
            count, known, looked = _keep_firing(listed, start, count, known, neuron, constants, inputs, scratch)
            looks += looked
        if count == 0:
            continue
        width = rounded_down(constants.band * (np.sqrt(count) + 2.0), unit)
        total, reach = _take_step(step, constants.scale, listed, count, inputs.max_correlation, coefficients, pushes)
        moved = Displacement(1.0, np.int64(0), count, total, False)
        from_inputs = moves and not known and not cheaper_by_products(K, count, d)
        if from_inputs:
            square = np.float64(sum_rows(pushes, pushes, listed, np.int64(0), count, vectors, fast_vector))
            norm = norm_of_sum(square, count, d, unit, total)
        else:
            by_step, terms = rows.first_step_change, count if moves else 0
            norm = _norm_by_products(coefficients, listed, count, terms, known, by_step, j, K, d, unit, total, changes)
        reach = min(reach, norm)
        doubt = doubt_of(moved, constants, d)
        # No pre-activation of an input that does not fire moves by more than the reach: what lies further below
        # stays below the band.
        level = safely_below(shift - width - reach, doubt)
        others, other_z, other_changes = listed[count:], start[count:], changes[count:]
        _mark(fired, listed, count, True)
        if screen is None:
            if level < listed_from:  # as for few rows
                nearby = places_at_least(Z[j], n, Z.dtype.type(level), near)
            candidates = _reaching(Z[j], near, nearby, Z.dtype.type(level), fired, others)
            pick(Z[j], others, candidates, other_z)
        else:
            least = level_of(screen.rows, j, screen.inputs, slack, level)
            if level < listed_from:
                nearby = places_at_least(whole, n, least, near)
            candidates = _reaching(whole, near, nearby, least, fired, others)
            pick_bounds(screen.rows, j, screen.inputs, slack, whole, others, candidates, other_z)
        _mark(fired, listed, count, False)
        if known:
            pick(rows.first_step_change[j], others, candidates, other_changes)
        elif not from_inputs:
            slack_of_change = _nearly(coefficients, listed, terms, inputs, total, others, candidates, other_changes)
        elif screen is None:
            dot_rows(fast_vector, vectors, listed, count + candidates, changes)
        else:
            dot_rows(fast_vector, vectors, listed, count, changes)
            slack_of_change = change_nearly(
                fast_vector, norm, screen.inputs, d, others, candidates, screen.halves, screen.sums, other_changes
            )
        either = 0.0 if twins else signs[j]
        level = safely_below(shift - width, doubt) - slack_of_change
        candidates = _keep_near(other_z, other_changes, others, candidates, either, level)
        if screen is not None:
            dot_rows(rows.weights[j], vectors, others, candidates, other_z)
        else:
            pick(Z[j], others, candidates, other_z)
        fuzz, candidates = doubt + slack_of_change, count + candidates
        # A change in working precision may be off by more than a product of a row is.
        fine = moves and doubt - guard > constants.guards.working
        unsure = fine or _any_near(start, changes, count, candidates, either, shift, doubt, fuzz)
        by_vector = fine and (not K.size or GATHER * count > 2 * d)
        if by_vector:
            add_up(moved, coefficients, listed, X, vector)
        for twin in range(copies):
            sign = signs[copies * j + twin]
            for q in range(count):
                sums[0, listed[q]] += sign * (start[q] - shift)
            kept = _move(
                start, changes, count, candidates, sign, shift - width - fuzz, shift, doubt, fuzz, places, z, margins
            )
            if slack_of_change > 0.0:
                moved = Displacement(sign, np.int64(0), count, total, from_inputs)
                _refine(
                    listed, start, count, kept, shift - fuzz, shift, moved, coefficients, fast_vector, doubt, inputs,
                    places, z, margins,
                )  # fmt: skip
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
    screen: Screen | None,
    step: NDArray[np.float64],
    constants: ShardConstants,
    inputs: Inputs,
    sums: NDArray[np.float64],
    lists: Any,
    used: tuple[int, int],
) -> Scanned:
    """Find which neurons fire at the start and after the first step, and write watchlists for those.

    The rows have pre-activations, or a ``screen``; ``constants`` have the guards of this block; ``step`` (n,) is the
    first step. ``sums`` (2, n) gains the outputs before and after. ``lists`` are watchlists with room, of which
    ``used`` = (neurons, entries) are taken; neurons with a pair that flipped get a ``seen`` of -1. Returns ``Scanned``.
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
    return _scan_rows(rows, screen, room, scratch, step, moves, constants, inputs, sums, lists, used)
