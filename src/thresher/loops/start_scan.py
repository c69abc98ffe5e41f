"""The scan of the start weights: which neurons fire, the first step, watchlists.

One block of rows at a time, while it is in the cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import compiled
from thresher.loops.judgement import (
    GATHER,
    add_products,
    add_up,
    decide,
    doubt_of,
    load_start,
    make_scratch,
    norm_bound,
)  # fmt: skip
from thresher.loops.pairs import dot
from thresher.loops.rounding import expiry_at, norm_at_most, rounded_down, safely_below
from thresher.loops.screen import CHUNK, change_nearly, guard_of, level_of, multiply_rows, pick_bounds, room_for
from thresher.loops.search import NONE, dots, fast_dot, pick, places_at_least, sum_up
from thresher.loops.structures import Displacement, Scanned

__all__ = ["scan_block"]

NEAR, FAR_GATHER = 1 << 21, 48  # bytes of products that caches near the processor hold, and GATHER beyond them


@njit(inline="always")
def _list(rows, j, products, n, slack, level, found):
    """List the inputs whose pre-activation of row j may reach a level; ``products`` in whole numbers if screened."""
    if rows.weights.size:
        return places_at_least(products, n, level_of(rows.rounded, j, rows.rounded_inputs, slack, level), found)
    return places_at_least(rows.products[j], n, rows.products.dtype.type(level), found)


@njit(inline="always")
def _look(rows, j, vectors, listed, count, out):
    """Write start pre-activations of row j with the listed inputs to ``out``."""
    if rows.weights.size:
        dots(rows.weights[j], vectors, listed, count, out)
    else:
        pick(rows.products[j], listed, count, out)


@njit(inline="always")
def _keep_high(listed, z, count, low, high):
    """Keep the listed inputs with z >= low, and that; return how many, and whether any is not above ``high``.

    No branches: which ones stay is hard to predict.
    """
    kept, unsure = NONE, False
    for c in range(count):
        i, value = listed[c], z[c]
        listed[kept], z[kept] = i, value
        near = value >= low
        kept += np.uint64(near)
        unsure |= near & (value <= high)
    return np.int64(kept), unsure


@compiled
def _keep_firing(fires, z, candidates, known, neuron, constants, inputs, scratch):
    """Keep of the candidates, with their start pre-activations, those that fire; near the threshold float64 decides.

    Returns their number, whether the first step's change is still ``known``, and the number of looks. It is not where
    rounding made the wrong inputs fire when it was computed.
    """
    count, looks, shift = 0, 0, constants.shift
    for c in range(candidates):
        i, start = fires[c], z[c]
        if start <= shift + constants.guards[0]:
            load_start(neuron, constants, inputs, scratch)
            looks += 1
            fires_then = dot(scratch.weights, inputs.vectors[i]) >= shift
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
def _keep_near(bounds, changes, listed, count, fires, firing, fired, sign, low):
    """Keep of the listed inputs those that did not fire and whose bounds may be >= low after their changes.

    ``fired`` (n,) is room, all False. With a sign of 0 changes have either sign. Returns how many are kept. No
    branches: they would be hard to predict.
    """
    _mark(fired, fires, firing, True)
    kept, low = NONE, bounds.dtype.type(low)
    either, sign = sign == 0, bounds.dtype.type(sign)
    for c in range(count):
        i, change = listed[c], changes[c]
        near = bounds[c] + (abs(change) if either else sign * change) >= low
        listed[kept], changes[kept] = i, change
        kept += np.uint64(near & ~fired[i])
    _mark(fired, fires, firing, False)
    return np.int64(kept)


@compiled
def _follow(coefficients, fires, count, products, listed, length, changes):
    """Set ``changes`` of the listed inputs to the sum of coefficients times products with the inputs that fire."""
    for c in range(length):
        changes[c] = 0
    for q in range(count):
        coefficient, row = changes.dtype.type(coefficients[q]), products[fires[q]]
        for c in range(length):
            changes[c] += coefficient * row[listed[c]]


@njit(inline="always")
def _any_near(start, changes, count, sign, shift, doubt):
    """Return whether any pre-activation is so near the threshold after its change that its side is not sure.

    With a sign of 0 changes have either sign.
    """
    near = False
    for c in range(count):
        value, change = np.float64(start[c]) - shift, np.float64(changes[c])
        near |= (abs(value + sign * change) <= doubt) | ((sign == 0) & (abs(abs(value) - abs(change)) <= doubt))
    return near


@njit(inline="always")
def _move(start, changes, count, sign, level, shift, doubt, places, z, margins):
    """Write to ``z`` the pre-activations that are >= level after their change, and what is sure of their margins.

    Returns their number.
    """
    kept = NONE
    for c in range(count):
        value = np.float64(start[c]) + sign * np.float64(changes[c])
        places[kept], z[kept], margins[kept] = c, value, abs(value - shift) - doubt
        kept += np.uint64(value >= level)
    return np.int64(kept)


@njit(inline="always")
def _refine(listed, start, kept, sign, shift, vector, X, places, z):
    """Compute again, in working precision, pre-activations that fire: they go into the outputs."""
    for q in range(kept):
        if z[q] >= shift:
            c = places[q]
            z[q] = np.float64(start[c]) + sign * np.float64(fast_dot(vector, X[listed[c]]))


@compiled
def _settle(
    listed, start, kept, neuron, moved, fires, fine, by_vector, constants, inputs, scratch, places, z, margins
):  # fmt: skip
    """Look again at pre-activations: those that are not sure, and if ``fine`` those that go into the outputs."""
    X, looks = inputs.vectors, 0
    for q in range(kept):
        c = places[q]
        i = listed[c]
        if margins[q] <= 0.0:
            z[q], error = decide(i, neuron, moved, fires, constants, inputs, scratch)
            margins[q] = abs(z[q] - constants.shift) - error
            looks += 1
        elif fine and z[q] >= constants.shift:
            if by_vector:
                z[q] = start[c] + moved.sign * dot(scratch.vector, X[i])
            else:
                z[q] = add_products(np.float64(start[c]), i, moved, scratch.coefficients, fires, inputs.products)
    return looks


@njit(inline="always")
def _write(listed, start, kept, places, z, margins, sign, shift, unit, soonest, entries, lists, sums):
    """Write entries of a watchlist; return the number of those that fire, and the soonest expiry."""
    after = 0
    for q in range(kept):
        c, p = places[q], np.uint64(entries + q)
        i, fires = listed[c], z[q] >= shift
        lists.inputs[p], lists.start[p], lists.side[p] = i, start[c], fires
        lists.expiry[p] = expiry_at(0.0, margins[q], unit)
        soonest = min(soonest, lists.expiry[p])
        sums[1, i] += sign * max(z[q] - shift, 0.0)
        after += fires
    return after, soonest


@njit(inline="always")
def _enter(
    careful, nearly, listed, start, changes, count, level, doubt, neuron, moved, fires, fine, by_vector, vector, X,
    constants, inputs, scratch, places, z, margins, soonest, entries, lists, sums,
):  # fmt: skip
    """Enter the listed inputs whose pre-activations are >= level after their changes into a watchlist.

    If changes are known ``nearly`` alone, those that fire are computed again from the ``vector``. Returns the numbers
    of entries and of those that fire, the soonest expiry, and the number of looks.
    """
    looks, kept = 0, _move(start, changes, count, moved.sign, level, constants.shift, doubt, places, z, margins)
    if nearly:
        _refine(listed, start, kept, moved.sign, constants.shift, vector, X, places, z)
    if careful:
        looks = _settle(
            listed, start, kept, neuron, moved, fires, fine, by_vector, constants, inputs, scratch, places, z, margins
        )
    after, soonest = _write(
        listed, start, kept, places, z, margins, moved.sign, constants.shift, constants.unit, soonest, entries, lists,
        sums,
    )  # fmt: skip
    return kept, after, soonest, looks


@njit(inline="always")
def _take_step(step, scale, fires, count, max_correlation, coefficients):
    """Write the coefficients of the first step; return the sum of their sizes, and how far others may move."""
    total = reach = 0.0
    for q in range(count):
        coefficients[q] = -scale * step[fires[q]]
        total += abs(coefficients[q])
        reach += abs(coefficients[q]) * max_correlation[fires[q]]
    return total, reach


def _scan(careful):
    """Return a loop over start rows from ``first`` on; see :func:`scan_block`.

    One that is not ``careful`` stops at a row with a pair whose side working precision cannot tell. A careful one goes
    on after its first row as long as there is such a pair. Rows like that are few, and the code that decides them would
    make all others slower. ``whole`` are products in whole numbers, from row ``held[0]`` on.
    """

    @compiled
    def scan_rows(rows, first, whole, held, step, constants, inputs, sums, lists, used):
        Z, vectors, signs = rows.products, inputs.fast_vectors, rows.signs
        K, X = inputs.fast_products, inputs.vectors
        shift, guard, unit, twins = constants.shift, constants.guards[0], constants.unit, constants.twins
        row, entries = used
        (n, d), copies = X.shape, 2 if twins else 1
        screened, last = rows.weights.size > 0, signs.size // copies
        rounded, rounded_inputs = rows.rounded, rows.rounded_inputs
        fires, others = np.empty(n, lists.inputs.dtype), np.empty(n, lists.inputs.dtype)
        fire_z, other_z, fire_changes, other_changes = np.empty((4, n), Z.dtype)
        fired, halves = np.zeros(n, np.bool_), np.zeros(rounded_inputs.rows.shape[1], np.int16)
        places, z, margins = np.empty(n, np.uint32), np.empty(n), np.empty(n)
        fast_vector, near_sums = np.zeros(vectors.shape[1], K.dtype), np.empty(n, np.int32)
        gather = (GATHER if K.nbytes <= NEAR else FAR_GATHER) * (2 if screened else 1)
        scratch = make_scratch(n, d)
        coefficients, vector = scratch.coefficients, scratch.vector
        flips = before = after = looks = 0
        moves = np.any(step != 0)
        low = Z.dtype.type(safely_below(shift, guard))
        for j in range(first, last):
            if entries + copies * n > lists.inputs.size:
                return Scanned(j, row, entries, flips, before, after, looks)
            here, neuron = j % CHUNK, copies * (rows.place + j)
            if screened and held[0] != j - here:
                multiply_rows(rounded, j - here, min(j - here + CHUNK, last), rounded_inputs, whole)
                held[0] = j - here
            slack, slack_of_change, norm = guard_of(rounded, j, rounded_inputs, d) if screened else 0.0, 0.0, 0.0
            candidates = _list(rows, j, whole[here], n, slack, low, fires)
            _look(rows, j, vectors, fires, candidates, fire_z)
            known = rows.first_step_change.size > 0
            count, unsure = _keep_high(fires, fire_z, candidates, low, shift + guard)
            if careful:
                if unsure:
                    count, known, looked = _keep_firing(fires, fire_z, count, known, neuron, constants, inputs, scratch)
                    looks += looked
            elif unsure:
                return Scanned(j, row, entries, flips, before, after, looks)
            if count == 0:
                continue
            width = rounded_down(constants.band * (np.sqrt(count) + 2.0), unit)
            total, reach = _take_step(step, constants.scale, fires, count, inputs.max_correlation, coefficients)
            moved = Displacement(1.0, np.int64(0), count, total, False)
            from_inputs = moves and not known and (not K.size or gather * count >= d)
            if from_inputs:
                square = sum_up(coefficients, fires, count, vectors, fast_vector)
                norm = norm_at_most(square, 2 * count + 4, d, unit, total)
                reach = min(reach, norm)
            elif reach > width:  # worth a closer bound
                reach = min(reach, norm_bound(moved, coefficients, fires, K, X, vector, unit))
            doubt = doubt_of(moved, constants, d)
            # No pre-activation of an input that does not fire moves by more than the reach: what lies further below
            # stays below the band.
            level = safely_below(shift - width - reach, doubt)
            candidates = _list(rows, j, whole[here], n, slack, level, others)
            if known:
                pick(rows.first_step_change[j], fires, count, fire_changes)
                pick(rows.first_step_change[j], others, candidates, other_changes)
            elif from_inputs:
                dots(fast_vector, vectors, fires, count, fire_changes)
                if screened:
                    slack_of_change = change_nearly(
                        fast_vector, norm, rounded_inputs, d, others, candidates, halves, near_sums, other_changes
                    )
                else:
                    dots(fast_vector, vectors, others, candidates, other_changes)
            else:
                _follow(coefficients, fires, count if moves else 0, K, fires, count, fire_changes)
                _follow(coefficients, fires, count if moves else 0, K, others, candidates, other_changes)
            if screened:
                pick_bounds(rounded, j, rounded_inputs, slack, whole[here], others, candidates, other_z)
            else:
                pick(Z[j], others, candidates, other_z)
            either = 0.0 if twins else signs[j]
            level = safely_below(shift - width, doubt) - slack_of_change
            candidates = _keep_near(other_z, other_changes, others, candidates, fires, count, fired, either, level)
            _look(rows, j, vectors, others, candidates, other_z)
            fuzz = doubt + slack_of_change
            fine = moves and doubt > 2.0 * guard  # a change in working precision may be off by more than z0 is
            unsure |= fine or _any_near(fire_z, fire_changes, count, either, shift, doubt)
            unsure |= _any_near(other_z, other_changes, candidates, either, shift, fuzz)
            if unsure != careful and (unsure or j > first):
                return Scanned(j, row, entries, flips, before, after, looks)
            by_vector = fine and (not K.size or GATHER * count > 2 * d)
            if careful and by_vector:
                add_up(moved, coefficients, fires, X, vector)
            for twin in range(copies):
                sign = signs[copies * j + twin]
                moved = Displacement(sign, np.int64(0), count, total, False)
                for q in range(count):
                    sums[0, fires[q]] += sign * (fire_z[q] - shift)
                begin = entries
                _, stayed, soonest, looked = _enter(
                    careful, False, fires, fire_z, fire_changes, count, -np.inf, doubt, neuron + twin, moved, fires,
                    fine, by_vector, fast_vector, vectors, constants, inputs, scratch, places, z, margins, width,
                    entries, lists, sums,
                )  # fmt: skip
                entries, looks = entries + count, looks + looked
                kept, begun, soonest, looked = _enter(
                    careful, slack_of_change > 0.0, others, other_z, other_changes, candidates, shift - width - fuzz,
                    fuzz, neuron + twin, moved, fires, fine, by_vector, fast_vector, vectors, constants, inputs,
                    scratch, places, z, margins, soonest, entries, lists, sums,
                )  # fmt: skip
                entries, looks = entries + kept, looks + looked
                before += count
                after += stayed + begun
                flipped = count - stayed + begun
                flips += flipped
                lists.neurons[row] = neuron + twin
                lists.sign[row], lists.begin[row], lists.length[row] = sign, begin, entries - begin
                lists.linear[row] = lists.fired[row] = count
                lists.drift[row], lists.band[row], lists.soonest[row] = 0.0, width, soonest
                lists.seen[row] = -1 if flipped else 0
                row += 1
        return Scanned(last, row, entries, flips, before, after, looks)

    return scan_rows


_scan_quickly, _scan_carefully = _scan(False), _scan(True)


@compiled
def scan_block(rows, step, constants, inputs, sums, lists, used):
    """Find which neurons fire at the start and after the first step, and write watchlists for those.

    ``rows`` are ``StartRows``; ``constants`` have the guards of this block; ``step`` (n,) is the first step. ``sums``
    (2, n) gains the outputs before and after. ``lists`` are watchlists with room, of which ``used`` = (neurons,
    entries) are taken; neurons with a pair that flipped get a ``seen`` of -1. Returns ``Scanned``.
    """
    whole, held = room_for(rows.rounded_inputs), np.full(1, -1)
    done, flips, before, after, looks = rows.first, 0, 0, 0, 0
    last = rows.signs.size // (2 if constants.twins else 1)
    while done < last:
        quick = _scan_quickly(rows, done, whole, held, step, constants, inputs, sums, lists, used)
        slow = Scanned(quick.done, quick.neurons, quick.entries, 0, 0, 0, 0)
        if quick.done < last:
            used = (quick.neurons, quick.entries)
            slow = _scan_carefully(rows, quick.done, whole, held, step, constants, inputs, sums, lists, used)
        used = (slow.neurons, slow.entries)
        flips, before = flips + quick.flips + slow.flips, before + quick.before + slow.before
        after, looks = after + quick.after + slow.after, looks + quick.looks + slow.looks
        done = slow.done
        if slow.done == quick.done:  # there is no room, or nothing is left
            break
    return Scanned(done, used[0], used[1], flips, before, after, looks)
