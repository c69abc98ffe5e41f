"""Visits to neurons that are due: how far they have drifted, which entries have expired, which pairs flipped.

Three certificates stand between a step and a look. A neuron is not due before its wake-up; if it is, a straight walk of
the length of its steps may not reach its first expiry; if it may, the norm of their sum may not. See
``loops/certified/watchlists.py`` for the watchlists.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from thresher.loops import compiled, helper
from thresher.loops.certified.judgement import (
    add_products,
    add_up,
    cheaper_by_products,
    correction,
    decide,
    doubt_of,
    follow,
    make_scratch,
    sum_of_products,
)  # fmt: skip
from thresher.loops.instructions.places import trailing_zeros
from thresher.loops.instructions.vectors import COMPARED, dot_rows, passed, prefetch, sum_rows
from thresher.loops.pairs.by_neuron import dot
from thresher.loops.rounding import (
    STRETCH,
    expiry_at,
    norm_at_most,
    norm_of_sum,
    rounded_up,
    wake_up_at,
)  # fmt: skip
from thresher.loops.structures import Displacement, Flips, Found, Inputs, Point, ShardConstants, Visited, WakeUps

__all__ = ["AHEAD", "fetch_row", "visit", "wake", "write_coefficients"]

AHEAD = 4  # rows between the one that is visited and the one that is fetched
BUFFER = 4096  # pairs that flipped whose values are computed together


@njit(inline="always")
def wake(clock, margin, scale, count):
    """Return, negated, the clock before which a neuron that fires on ``count`` inputs cannot drift by ``margin``.

    It drifts by at most ``scale`` times the number of its firing inputs for each unit of the clock.
    """
    return -wake_up_at(clock + max(margin, 0.0) / (STRETCH * scale * count)) if count else -np.inf


@njit(inline="always")
def write_coefficients(base, begin, listed, first, linear, fired, push, sums, coefficients):
    """Write the coefficients of a row; ``sums`` (n,) is the running sum of steps. Returns the sum of their sizes.

    Its bases begin at ``begin``, its entries at ``first``.
    """
    total = 0.0
    for q in range(fired):
        coefficients[q] = base[begin + q]
        if q < linear:
            coefficients[q] -= push * sums[listed[first + q]]
        total += abs(coefficients[q])
    return total


@helper
def _find_due(lists, places, forced, wake_ups, point, constants, steps, known, due):
    """Write to ``due`` the places of neurons whose first expiry a straight walk would reach, and of forced ones.

    The others get their next wake-up. ``steps`` (snapshots, n) gains what was added to the running sum since each
    snapshot that a neuron was last visited at; ``known`` (snapshots,), all False, tells which. Returns how many are
    due.
    """
    sums, now, scale, unit = point.sums, point.now, constants.scale, constants.unit
    count = 0
    for index in range(places.size):
        r = places[index]
        first, linear, seen = lists.begin[r], np.int64(lists.linear[r]), lists.seen[r]
        if not known[seen]:
            known[seen] = True
            for i in range(steps.shape[1]):
                steps[seen, i] = sums[now, i] - sums[seen, i]
        total = 0.0
        for q in range(linear):
            total += abs(steps[seen, lists.inputs[first + q]])
        walked = STRETCH * scale * total
        margin = lists.soonest[r] - lists.drift[r] - rounded_up(constants.trust * walked, unit)
        if margin > 0.0 and not forced[index]:
            wake_ups.leaves[r] = wake(wake_ups.clock, margin, scale, linear)
            continue
        due[count] = index
        count += 1
    return count


@njit(inline="always")
def fetch_row(lists, r):
    """Have the row of a neuron brought into the cache, as far as two lines of each array hold it."""
    p, q = lists.begin[r], lists.base_begin[r]
    prefetch(lists.base, q)
    prefetch(lists.base, q + 7)
    prefetch(lists.inputs, p)
    prefetch(lists.expiry, p)
    prefetch(lists.expiry, p + 15)
    prefetch(lists.start, p)
    prefetch(lists.start, p + 15)
    prefetch(lists.side, p)


@helper
def _find_expired(lists, r, level, all_sides, entries, watched):
    """Write to ``entries`` and ``watched`` the entries of a row that have expired, and their inputs.

    Returns their number, and the soonest expiry of the others. With ``all_sides`` those count as well that are not on
    the side of their zone.
    """
    first, linear, size = lists.begin[r], lists.linear[r], lists.expiry.size
    last, soonest, count = first + lists.length[r], lists.band[r], 0
    if all_sides or size < COMPARED:
        for p in range(first, last):
            expired = (lists.expiry[p] <= level) | (lists.side[p] != (p - first < linear))
            entries[count], watched[count] = p, lists.inputs[p]
            count += expired
            soonest = soonest if expired else min(soonest, lists.expiry[p])
        return count, soonest
    for chunk in range(first, last, COMPARED):
        place = min(chunk, size - COMPARED)
        word, least = passed(lists.expiry, place, chunk, last, level)
        soonest = min(soonest, least)
        while word:
            p = place + np.int64(trailing_zeros(word))
            entries[count], watched[count] = p, lists.inputs[p]
            count += 1
            word &= word - np.uint64(1)
    return count, soonest


@helper
def _correct(lists, flips, count, point, constants, inputs, scratch, found):
    """Add to the corrections what pairs that flipped add to the outputs: in float64, whatever way found them.

    Returns how many have flipped on and off.
    """
    on = off = 0
    coefficients, holder, moved = scratch.coefficients, -1, Displacement(1.0, 0, 0, 0.0, False)
    products, n = inputs.products, inputs.products.shape[1]
    for k in range(count):
        if k + AHEAD < count and products.size:
            ahead, row = flips.owners[k + AHEAD], n * np.int64(lists.inputs[flips.entries[k + AHEAD]])
            for q in range(lists.begin[ahead], lists.begin[ahead] + lists.fired[ahead]):
                prefetch(products, row + np.int64(lists.inputs[q]))
        p, r, z = flips.entries[k], flips.owners[k], flips.values[k]
        if r != holder:
            holder, first, fired = r, lists.begin[r], np.int64(lists.fired[r])
            push, here = constants.scale * lists.sign[r], point.sums[point.now]
            total = write_coefficients(
                lists.base, lists.base_begin[r], lists.inputs, first, lists.linear[r], fired, push, here, coefficients
            )
            moved = Displacement(1.0, first, fired, total, False)
            if not inputs.products.size:
                add_up(moved, coefficients, lists.inputs, inputs.vectors, scratch.vector)
        i, fires = lists.inputs[p], lists.side[p]
        if z == np.inf:
            if inputs.products.size:
                z = add_products(np.float64(lists.start[p]), i, moved, coefficients, lists.inputs, inputs.products)
            else:
                z = np.float64(lists.start[p]) + dot(scratch.vector, inputs.vectors[i])
        found.corrections[i] += correction(z, constants.shift, lists.sign[r], fires)
        on += fires
        off += not fires
    return on, off


def visit(
    lists: Any,
    places: NDArray[np.int64],
    forced: NDArray[np.bool_],
    wake_ups: WakeUps,
    point: Point,
    constants: ShardConstants,
    inputs: Inputs,
    found: Found,
) -> Visited:
    """Bring the listed neurons up to date: drift, expired entries, corrections of pairs that flipped, next wake-up.

    ``forced`` (places,) marks those with pairs that flipped earlier in this iteration: they are looked at in any case.
    Wake-ups are written to ``wake_ups``, the rest to ``found``. Returns a ``Visited``.
    """
    longest, X, (snapshots, n) = int(lists.length[places].max(initial=0)), inputs.fast_vectors, point.sums.shape
    steps, due = np.empty((snapshots, n)), np.empty(places.size, np.int64)
    known, most = np.zeros(snapshots, np.bool_), longest + BUFFER
    flips = Flips(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most))
    scratch, changes = make_scratch(longest, inputs), np.empty(longest)
    pushes, pulls, vector = np.empty(longest, X.dtype), np.empty(longest, X.dtype), np.empty(X.shape[1], X.dtype)
    watched = np.empty(longest + 1, lists.inputs.dtype)
    return _visit_due(
        lists, places, forced, wake_ups, point, constants, inputs, found, due, steps, known, scratch, changes, pushes,
        pulls, vector, watched, flips,
    )  # fmt: skip


@compiled
def _visit_due(
    lists, places, forced, wake_ups, point, constants, inputs, found, due, steps, known, scratch, changes, pushes,
    pulls, vector, watched, flips,
):  # fmt: skip
    """Visit the neurons that are due; see :func:`visit`. The last arguments, from ``due`` on, are room."""
    shift, unit, scale, trust = constants.shift, constants.unit, constants.scale, constants.trust
    sums, now, leaves, clock = point.sums, point.now, wake_ups.leaves, wake_ups.clock
    X, K, d = inputs.fast_vectors, inputs.fast_products, inputs.vectors.shape[1]
    coefficients, entries = scratch.coefficients, scratch.entries
    n_due = _find_due(lists, places, forced, wake_ups, point, constants, steps, known, due)
    n_pending = n_left_band = looks = n_flips = on = off = 0
    for k in range(n_due):
        if k + AHEAD < n_due:
            fetch_row(lists, places[due[k + AHEAD]])
        r, looked_at = places[due[k]], forced[due[k]]
        if n_flips + lists.length[r] > flips.entries.size:  # before this neuron's coefficients stand in ``scratch``
            more, less = _correct(lists, flips, np.int64(n_flips), point, constants, inputs, scratch, found)
            on, off, n_flips = on + more, off + less, 0
        first, linear, fired = lists.begin[r], np.int64(lists.linear[r]), np.int64(lists.fired[r])
        seen, push, begin = lists.seen[r], scale * lists.sign[r], lists.base_begin[r]
        walked = total = 0.0
        for q in range(fired):
            j, step, c = lists.inputs[first + q], 0.0, lists.base[begin + q]
            if q < linear:
                step = push * steps[seen, j]
                c -= push * sums[now, j]
            pushes[q], pulls[q], coefficients[q] = step, c, c
            walked += abs(step)
            total += abs(c)
        by_products = cheaper_by_products(K, fired, d)
        if by_products:
            follow(pushes, lists.inputs, first, linear, K, lists.inputs[first:], linear, changes)
            norm = norm_at_most(sum_of_products(pushes, changes, linear), linear, d, unit, walked)
        else:
            square = np.float64(sum_rows(pushes, pulls, lists.inputs, first, fired, X, vector))
            norm = norm_of_sum(square, linear, d, unit, walked)
        drift = rounded_up(lists.drift[r] + trust * norm, unit)
        lists.drift[r], lists.seen[r] = drift, now
        if drift >= lists.band[r]:
            found.left_band[n_left_band] = r
            n_left_band += 1
            continue
        if drift < lists.soonest[r] and not looked_at:
            leaves[r] = wake(clock, lists.soonest[r] - drift, scale, linear)
            continue
        expired, soonest = _find_expired(lists, r, lists.drift[r], looked_at, entries, watched)
        moved = Displacement(1.0, first, fired, total, False)
        doubt = doubt_of(moved, constants, d)
        if doubt - constants.guards.made > constants.guards.working:  # the change may be off by more than products are
            moved = Displacement(1.0, first, fired, total, True)
            doubt = doubt_of(moved, constants, d)
            add_up(moved, coefficients, lists.inputs, inputs.vectors, scratch.vector)
            for e in range(expired):
                changes[e] = dot(scratch.vector, inputs.vectors[watched[e]])
        elif by_products:
            follow(pulls, lists.inputs, first, fired, K, watched, expired, changes)
        else:
            dot_rows(vector, X, watched, expired, changes)
        looks += expired
        begun = n_flips
        for e in range(expired):
            p = entries[e]
            z, value = np.float64(lists.start[p]) + changes[e], np.inf
            margin = abs(z - shift) - doubt
            if margin <= 0.0:
                z, error = decide(
                    watched[e], np.int64(lists.neurons[r]), moved, lists.inputs, constants, inputs, scratch
                )
                margin, value = abs(z - shift) - error, z
                looks += 1
            fires = z >= shift
            lists.side[p], lists.expiry[p] = fires, expiry_at(drift, margin, unit)
            soonest = min(soonest, lists.expiry[p])
            flips.entries[n_flips], flips.owners[n_flips], flips.values[n_flips] = p, r, value
            n_flips += fires != (p - first < linear)
        lists.soonest[r] = soonest
        leaves[r] = wake(clock, soonest - drift, scale, linear)
        if n_flips > begun:
            found.pending[n_pending] = r
            n_pending += 1
    more, less = _correct(lists, flips, np.int64(n_flips), point, constants, inputs, scratch, found)
    return Visited(n_pending, n_left_band, looks, on + more, off + less)
