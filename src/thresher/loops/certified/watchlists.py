"""Expiry dates: loops over watchlists. See ``shards/certified.py`` for what is certified and why.

A watchlist is a row of entries ``begin[r] <= p < begin[r] + length[r]``, one for each watched input of neuron r.
Entries come in three zones: the first ``linear[r]`` fire at the point of linearisation (they move the neuron), those
up to ``fired[r]`` have fired before (they have a coefficient), the rest only lie within the band. The coefficient of
an entry is ``base - push * sums[now, input]`` in the first zone and ``base`` elsewhere: steps are never written to
neurons that nobody visits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from thresher.loops import compiled
from thresher.loops.certified.judgement import (
    add_products,
    add_up,
    correction,
    decide,
    doubt_of,
    make_scratch,
    place_of,
    sort_keys,
)  # fmt: skip
from thresher.loops.certified.visits import AHEAD, fetch_row, wake, write_coefficients
from thresher.loops.pairs.by_neuron import dot
from thresher.loops.rounding import expiry_at, rounded_down
from thresher.loops.structures import Displacement, Entries, Found, Inputs, Point, Rebuilt, ShardConstants

__all__ = ["commit", "extract", "rebuild", "write_wake_ups"]


@compiled
def write_wake_ups(lists, places, constants, wake_ups):
    """Write to the leaves of the tree when the listed neurons, all up to date, wake up."""
    scale = constants.scale
    for index in range(places.size):
        r = places[index]
        wake_ups.leaves[r] = wake(wake_ups.clock, lists.soonest[r] - lists.drift[r], scale, lists.linear[r])


@compiled
def commit(lists, places, point, scale, bases_used, counts):
    """Make the current sides of the listed neurons the point of linearisation; update ``counts`` (n, n) unless empty.

    ``counts`` is kept in its lower triangle. An entry that begins to fire joins the first zone, one that ceases leaves
    it; coefficients do not change. Rows whose second zone grows get new bases, from ``bases_used`` on. Returns how many
    are used then.
    """
    counting = counts.size > 0
    for index in range(places.size):
        if index + AHEAD < places.size:
            fetch_row(lists, places[index + AHEAD])
        r = places[index]
        first, linear, fired = lists.begin[r], np.int64(lists.linear[r]), np.int64(lists.fired[r])
        last, push, base = first + lists.length[r], scale * lists.sign[r], lists.base_begin[r]
        new = 0
        for p in range(first + fired, last):
            new += lists.side[p]
        if new:
            for q in range(fired):
                lists.base[bases_used + q] = lists.base[base + q]
            for q in range(fired, fired + new):
                lists.base[bases_used + q] = 0.0
            lists.base_begin[r] = base = bases_used
            bases_used += fired + new
        p = first
        while p < first + linear:  # those that cease
            if lists.side[p]:
                p += 1
                continue
            i = lists.inputs[p]
            if counting:
                for q in range(first, first + linear):
                    j = lists.inputs[q]
                    counts[max(i, j), min(i, j)] -= 1
            lists.base[base + p - first] -= push * point.sums[point.now, i]
            linear -= 1
            _swap(lists, first, base, p - first, linear)
        for p in range(first + linear, last):  # those that begin
            if not lists.side[p]:
                continue
            i, q = lists.inputs[p], p - first
            if q >= fired:
                _swap_entries(lists, p, first + fired)
                q = fired
                fired += 1
            lists.base[base + q] += push * point.sums[point.now, i]
            _swap(lists, first, base, q, linear)
            linear += 1
            if counting:
                for q in range(first, first + linear):
                    j = lists.inputs[q]
                    counts[max(i, j), min(i, j)] += 1
        lists.linear[r], lists.fired[r] = linear, fired
    return bases_used


@njit(inline="always")
def _swap(lists, first, base, p, q):
    """Swap two entries of a row that have fired, and their bases."""
    _swap_entries(lists, first + p, first + q)
    lists.base[base + p], lists.base[base + q] = lists.base[base + q], lists.base[base + p]


@njit(inline="always")
def _swap_entries(lists, p, q):
    lists.inputs[p], lists.inputs[q] = lists.inputs[q], lists.inputs[p]
    lists.start[p], lists.start[q] = lists.start[q], lists.start[p]
    lists.expiry[p], lists.expiry[q] = lists.expiry[q], lists.expiry[p]
    lists.side[p], lists.side[q] = lists.side[q], lists.side[p]


def rebuild(
    lists: Any,
    places: NDArray[np.int64],
    Z: NDArray[np.floating],
    entries_used: int,
    point: Point,
    constants: ShardConstants,
    inputs: Inputs,
    found: Found,
) -> Rebuilt:
    """Write new watchlists, with wider bands, for neurons that left theirs.

    Z (k, n) are their start pre-activations. New rows go to the end of the entry arrays, from ``entries_used`` on; what
    is found to ``found``. Returns a ``Rebuilt``.
    """
    n = len(inputs.vectors)
    change, watched, scratch = np.empty(n), np.empty(n, np.bool_), make_scratch(n, inputs)
    return _rebuild_rows(lists, places, Z, entries_used, point, constants, inputs, found, change, watched, scratch)


@compiled
def _rebuild_rows(lists, places, Z, entries_used, point, constants, inputs, found, change, watched, scratch):
    """See :func:`rebuild`; the last three arguments are room."""
    shift, unit, K, X, products = (
        constants.shift, constants.unit, inputs.fast_products, inputs.vectors, inputs.products,
    )  # fmt: skip
    n, d = X.shape
    coefficients, vector = scratch.coefficients, scratch.vector
    n_pending = looks = on = off = 0
    for index in range(places.size):
        r = places[index]
        first, linear, fired = lists.begin[r], lists.linear[r], np.int64(lists.fired[r])
        by_vector = not K.size or fired > d  # the cheaper of two ways to the change of every pre-activation
        push, here = constants.scale * lists.sign[r], point.sums[point.now]
        base = lists.base_begin[r]
        total = write_coefficients(lists.base, base, lists.inputs, first, linear, fired, push, here, coefficients)
        moved = Displacement(1.0, first, fired, total, by_vector)
        if by_vector:
            add_up(moved, coefficients, lists.inputs, X, vector)
            for i in range(n):
                change[i] = dot(vector, X[i])
        else:
            for i in range(n):
                change[i] = 0.0
            for q in range(fired):
                for i in range(n):
                    change[i] += coefficients[q] * K[lists.inputs[first + q], i]
        doubt = doubt_of(moved, constants, d)
        drift = lists.drift[r]
        width = max(drift, 2.0 * constants.band * (np.sqrt(linear) + 2.0))
        begin = entries_used
        end = begin + fired
        for i in range(n):  # a slice would take seconds to compile
            watched[i] = False
        for q in range(fired):
            watched[lists.inputs[first + q]] = True
            lists.inputs[begin + q] = lists.inputs[first + q]
        for i in range(n):
            if not watched[i] and Z[index, i] + change[i] >= shift - width - doubt:
                lists.inputs[end] = i
                end += 1
        looks += n
        flipped = False
        lists.band[r] = soonest = rounded_down(drift + width, unit)
        moved = Displacement(1.0, begin, fired, total, by_vector)
        for p in range(begin, end):
            i, then, error = lists.inputs[p], p - begin < linear, doubt
            lists.start[p] = Z[index, i]
            z = Z[index, i] + change[i]
            if abs(z - shift) <= doubt:
                z, error = decide(i, np.int64(lists.neurons[r]), moved, lists.inputs, constants, inputs, scratch)
                looks += 1
            elif not by_vector and (z >= shift) != then:  # it flips, and its value goes into the outputs: in float64
                z = add_products(np.float64(Z[index, i]), i, moved, coefficients, lists.inputs, products)
            fires = z >= shift
            lists.side[p], lists.expiry[p] = fires, expiry_at(drift, abs(z - shift) - error, unit)
            soonest = min(soonest, lists.expiry[p])
            if fires != then:
                flipped = True
                found.corrections[i] += correction(z, shift, lists.sign[r], fires)
                on += fires
                off += not fires
        lists.begin[r], lists.length[r] = begin, end - begin
        lists.soonest[r] = soonest
        entries_used = end
        if flipped:
            found.pending[n_pending] = r
            n_pending += 1
    return Rebuilt(entries_used, n_pending, looks, on, off)


def extract(lists: Any, zone: NDArray[np.int32], only_moved: bool, point: Point, scale: float) -> Entries:
    """Return the first ``zone[r]`` entries of each row by neuron, inputs ascending; ``only_moved``: coefficient not 0.

    Returns ``Entries``.
    """
    total, rows, longest = int(zone.sum(dtype=np.int64)), int(np.count_nonzero(zone)), int(zone.max(initial=0))
    places, bounds = np.empty(rows, np.int64), np.zeros(rows + 1, np.int64)
    inputs, coefficients = np.empty(total, np.int32), np.empty(total)
    found, keys = Entries(places, bounds, inputs, coefficients), np.empty(longest, np.int64)
    row, p = _extract_rows(lists, zone, only_moved, point, scale, keys, found)
    return Entries(places[:row], bounds[: row + 1], inputs[:p], coefficients[:p])


@compiled
def _extract_rows(lists, zone, only_moved, point, scale, keys, found):
    """Write the entries to ``found``; return the numbers of rows and of entries. ``keys`` is room for a row."""
    row = p = 0
    for r in range(zone.size):
        first, base, count = lists.begin[r], lists.base_begin[r], np.int64(zone[r])
        begun = p
        sort_keys(lists.inputs, first, count, keys)
        for k in range(count):
            j, q = keys[k] >> 32, place_of(keys[k])
            pushed = scale * lists.sign[r] * point.sums[point.now, j] if q < lists.linear[r] else 0.0
            c = lists.base[base + q] - pushed
            if c != 0 or not only_moved:
                found.inputs[p], found.coefficients[p] = j, c
                p += 1
        if p > begun:
            found.places[row] = r
            row += 1
            found.bounds[row] = p
    return row, p
