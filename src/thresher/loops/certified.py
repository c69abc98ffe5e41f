"""Expiry dates: loops over watchlists. See ``shards/certified.py`` for what is certified and why.

A watchlist is a row of entries ``begin[r] <= p < begin[r] + length[r]``, one for each watched input of neuron r.
Entries come in three zones: the first ``linear[r]`` fire at the point of linearisation (they move the neuron), those
up to ``fired[r]`` have fired before (they have a coefficient), the rest only lie within the band. The coefficient of
an entry is ``base - push * Gamma[input]`` in the first zone and ``base`` elsewhere: steps are never written to neurons
that nobody visits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import compiled
from thresher.loops.pairs import dot
from thresher.loops.philox import fill_row

__all__ = [
    "GATHER", "add_up", "commit", "expiry_at", "extract", "norm_bound", "rebuild", "rounding_of_look", "visit",
    "write_wake_ups",
]  # fmt: skip


FINE = 2.0**-53  # unit roundoff of float64
GATHER = 6  # multiplications of contiguous numbers that cost as much as one with a gathered number
# A step moves a pre-activation by at most |delta| |x_j| |x_i|, and norms may exceed 1 by their tolerance: both of them.
STRETCH = (1.0 + 1.1e-5) ** 2


@njit(inline="always")
def add_up(coefficients, inputs, first, count, X, out):
    """Set ``out`` (d,) to the sum of coefficients times inputs: the moved part of a neuron."""
    for k in range(X.shape[1]):
        out[k] = 0.0
    for q in range(count):
        for k in range(X.shape[1]):
            out[k] += coefficients[q] * X[inputs[first + q], k]


@compiled
def _ascending(inputs, first, count, order):
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


@njit(inline="always")
def _decide(value, coefficients, inputs, first, count, order, products):
    """Return the pre-activation that decides, as ``look_at`` computes it: coefficients by ascending input."""
    for q in range(count):
        value += coefficients[order[q]] * products[inputs[first + order[q]]]
    return value


@njit(inline="always")
def norm_bound(delta, inputs, first, count, K, X, scratch, unit):
    """Return an upper bound of |sum of delta[q] x_q|, by inner products or by the vector itself: the cheaper."""
    total = 0.0
    square = 0.0
    for q in range(count):
        total += abs(delta[q])
    if GATHER * count <= 2 * X.shape[1]:
        for q in range(count):
            row = 0.0
            j = inputs[first + q]
            for other in range(q):
                row += delta[other] * K[j, inputs[first + other]]
            square += delta[q] * (2.0 * row + delta[q] * STRETCH)  # K[j, j] is 1 but for the tolerance of norms
    else:
        add_up(delta, inputs, first, count, X, scratch)
        square = dot(scratch, scratch)
    # Rounding: each product carries a relative error of a few units, cancellation may leave nothing but those.
    slack = (count + 4 + X.shape[1]) * unit * total * total
    return STRETCH * np.sqrt(max(square, 0.0) + slack)


@njit(inline="always")
def rounding_of_look(exact, count, d, total, shift):
    """Return a bound on what float64 loses in a look at a pair near the threshold, ``count`` coefficients to add.

    ``exact`` bounds what the product with the start weights loses; each addition rounds what has been summed so far.
    """
    return exact + (count + d + 3) * FINE * (2.0 * total + abs(shift))


@njit(inline="always")
def expiry_at(drift, margin, unit):
    """Return the drift at which a pair with that margin may flip, rounded down."""
    return drift + margin - 4.0 * unit * (drift + abs(margin))


@njit(inline="always")
def _wake(clock, margin, scale, count):
    """Return, negated, the clock before which a neuron that fires on ``count`` inputs cannot drift by ``margin``.

    It drifts by at most ``scale`` times the number of its firing inputs for each unit of the clock. Rounded towards too
    early: the tree is in float32.
    """
    return -(clock + max(margin, 0.0) / (STRETCH * scale * count)) * (1.0 - 1e-6) if count else -np.inf


@compiled
def write_wake_ups(lists, places, clock, scale, leaves):
    """Write to the leaves of the tree when the listed neurons, all up to date, wake up."""
    for index in range(places.size):
        r = places[index]
        leaves[r] = _wake(clock, lists.soonest[r] - lists.drift[r], scale, lists.linear[r])


@compiled
def visit(lists, places, forced, clock, leaves, Gamma, now, physics, K, X, products, corrections, pending, left):
    """Bring the listed neurons up to date: drift, expired entries, corrections of pairs that flipped, next wake-up.

    ``forced`` (places,) marks those with pairs that flipped earlier in this iteration: they are looked at in any case.
    ``physics`` = (shift, guards, unit, scale, band, seed, first neuron, twins, trust). Writes wake-ups to ``leaves``,
    places with flips to ``pending`` and places that left their band to ``left``; returns the numbers of the latter
    two, of looks, and of pairs that flipped on and off.
    """
    shift, guards, unit, scale, _, seed, first_neuron, twins, trust = physics
    guard, exact = guards
    d = X.shape[1]
    longest = 0
    for index in range(places.size):
        longest = max(longest, lists.length[places[index]])
    coefficients, order, todo = np.empty(longest), np.empty(longest, np.int64), np.empty(longest + 1, np.int64)
    vector, weights = np.empty(d), np.empty(d)
    waiting = gone = looks = on = off = 0
    for index in range(places.size):
        r = places[index]
        first, count, fired = lists.begin[r], lists.linear[r], lists.fired[r]
        push, seen = scale * lists.sign[r], lists.seen[r]
        reach = 0.0
        for q in range(count):
            j = lists.inputs[first + q]
            coefficients[q] = push * (Gamma[now, j] - Gamma[seen, j])
            reach += STRETCH * abs(coefficients[q])
        # The cheapest certificate first: not even a straight walk of that length reaches the first expiry.
        margin = lists.soonest[r] - lists.drift[r] - trust * reach * (1.0 + 4.0 * unit)
        if margin > 0.0 and not forced[index]:
            leaves[r] = _wake(clock, margin, scale, count)
            continue
        drift = lists.drift[r] + trust * norm_bound(coefficients, lists.inputs, first, count, K, X, vector, unit)
        drift *= 1.0 + 2.0 * unit  # it is stored in working precision
        lists.drift[r], lists.seen[r] = drift, now
        if drift >= lists.band[r]:
            left[gone] = r
            gone += 1
            continue
        if drift < lists.soonest[r] and not forced[index]:
            leaves[r] = _wake(clock, lists.soonest[r] - drift, scale, count)
            continue
        total = 0.0
        for q in range(fired):
            coefficients[q] = lists.base[first + q]
            if q < count:
                coefficients[q] -= push * Gamma[now, lists.inputs[first + q]]
            total += abs(coefficients[q])
        level, soonest = lists.drift[r], lists.band[r]
        expired = 0
        for p in range(first, first + lists.length[r]):  # without branches: which entries are due is hard to predict
            due = (lists.expiry[p] <= level) | (lists.side[p] != (p - first < count))
            todo[expired] = p
            expired += due
            soonest = soonest if due else min(soonest, lists.expiry[p])
        by_vector = (fired + expired) * d < GATHER * expired * fired
        doubt = guard + (fired + 3 + d) * (FINE if by_vector else unit) * total  # the vector is in float64
        if by_vector:
            add_up(coefficients, lists.inputs, first, fired, X, vector)
        loaded = flipped = False
        for p in todo[:expired]:
            then = p - first < count
            i = lists.inputs[p]
            looks += 1
            z = np.float64(lists.start[p])
            if by_vector:
                z += dot(vector, X[i])
            else:
                for q in range(fired):
                    z += coefficients[q] * K[i, lists.inputs[first + q]]
            error = doubt
            if abs(z - shift) <= doubt:
                error = rounding_of_look(exact, fired, d, total, shift)
                if not loaded:
                    neuron = np.uint64(first_neuron + lists.neurons[r])
                    fill_row(seed, np.uint64(0), neuron >> np.uint64(1) if twins else neuron, weights)
                    _ascending(lists.inputs, first, fired, order)
                    loaded = True
                looks += 1
                z = _decide(dot(weights, X[i]), coefficients, lists.inputs, first, fired, order, products[i])
            elif not by_vector and (z >= shift) != then:  # it flips, and its value goes into the outputs: no rounding
                z = np.float64(lists.start[p])
                for q in range(fired):
                    z += coefficients[q] * products[i, lists.inputs[first + q]]
            fires = z >= shift
            lists.side[p] = fires
            lists.expiry[p] = expiry_at(drift, abs(z - shift) - error, unit)
            soonest = min(soonest, lists.expiry[p])
            if fires != then:
                flipped = True
                if fires:
                    corrections[i] += lists.sign[r] * (z - shift)
                    on += 1
                else:
                    corrections[i] += lists.sign[r] * (shift - z)
                    off += 1
        lists.soonest[r] = soonest
        leaves[r] = _wake(clock, soonest - drift, scale, count)
        if flipped:
            pending[waiting] = r
            waiting += 1
    return waiting, gone, looks, on, off


@compiled
def commit(lists, places, Gamma, now, scale, counts):
    """Make the current sides of the listed neurons the point of linearisation; update ``counts`` (n, n) unless empty.

    ``counts`` is kept in its lower triangle. An entry that begins to fire joins the first zone, one that ceases leaves
    it; coefficients do not change.
    """
    counting = counts.size > 0
    for index in range(places.size):
        r = places[index]
        first, push = lists.begin[r], scale * lists.sign[r]
        p = first
        while p < first + lists.linear[r]:  # those that cease
            if lists.side[p]:
                p += 1
                continue
            i = lists.inputs[p]
            if counting:
                for q in range(first, first + lists.linear[r]):
                    j = lists.inputs[q]
                    counts[max(i, j), min(i, j)] -= 1
            lists.base[p] -= push * Gamma[now, i]
            lists.linear[r] -= 1
            _swap(lists, p, first + lists.linear[r])
        for p in range(first + lists.linear[r], first + lists.length[r]):  # those that begin
            if not lists.side[p]:
                continue
            i = lists.inputs[p]
            if p - first >= lists.fired[r]:
                _swap(lists, p, first + lists.fired[r])
                p = first + lists.fired[r]
                lists.fired[r] += 1
            lists.base[p] += push * Gamma[now, i]
            _swap(lists, p, first + lists.linear[r])
            lists.linear[r] += 1
            if counting:
                for q in range(first, first + lists.linear[r]):
                    j = lists.inputs[q]
                    counts[max(i, j), min(i, j)] += 1


@njit(inline="always")
def _swap(lists, p, q):
    lists.inputs[p], lists.inputs[q] = lists.inputs[q], lists.inputs[p]
    lists.start[p], lists.start[q] = lists.start[q], lists.start[p]
    lists.expiry[p], lists.expiry[q] = lists.expiry[q], lists.expiry[p]
    lists.base[p], lists.base[q] = lists.base[q], lists.base[p]
    lists.side[p], lists.side[q] = lists.side[q], lists.side[p]


@compiled
def rebuild(lists, places, Z, W, room, Gamma, now, physics, K, X, products, corrections, pending):
    """Write new watchlists, with wider bands, for neurons that left theirs.

    Z (k, n) are their start pre-activations, W (k, d) their start weights; new rows go to the end of the entry arrays,
    from ``room`` on. Returns the new end, then the numbers of pending neurons, looks, and pairs that flipped on and
    off.
    """
    shift, guards, unit, scale, band = physics[0], physics[1], physics[2], physics[3], physics[4]
    guard, exact = guards
    n, d = X.shape
    moved, coefficients, order = np.empty(n), np.empty(n), np.empty(n, np.int64)
    watched = np.empty(n, np.bool_)
    weights, vector = np.empty(d), np.empty(d)
    waiting = looks = on = off = 0
    for index in range(places.size):
        r = places[index]
        first, count, fired = lists.begin[r], lists.linear[r], lists.fired[r]
        push = scale * lists.sign[r]
        for i in range(n):
            watched[i], moved[i] = False, 0.0
        total = 0.0
        for q in range(fired):
            j = lists.inputs[first + q]
            watched[j] = True
            coefficients[q] = lists.base[first + q] - (push * Gamma[now, j] if q < count else 0.0)
            total += abs(coefficients[q])
        if fired > d:  # the cheaper of two ways to the change of every pre-activation
            add_up(coefficients, lists.inputs, first, fired, X, vector)
            for i in range(n):
                moved[i] = dot(vector, X[i])
        else:
            for q in range(fired):
                for i in range(n):
                    moved[i] += coefficients[q] * K[lists.inputs[first + q], i]
        doubt = guard + (fired + 3 + d) * (FINE if fired > d else unit) * total
        drift = lists.drift[r]
        width = max(drift, 2.0 * band * (np.sqrt(count) + 2.0))
        begin = room
        end = begin + fired
        for q in range(fired):
            lists.inputs[begin + q] = lists.inputs[first + q]
            lists.base[begin + q] = lists.base[first + q]
        for i in range(n):
            if not watched[i] and Z[index, i] + moved[i] >= shift - width - doubt:
                lists.inputs[end], lists.base[end] = i, 0.0
                end += 1
        looks += n
        loaded = flipped = False
        soonest = drift + width
        lists.band[r] = soonest * (1.0 - 2.0 * unit)
        for p in range(begin, end):
            i = lists.inputs[p]
            lists.start[p] = Z[index, i]
            z = Z[index, i] + moved[i]
            error = doubt
            if abs(z - shift) <= doubt:
                error = rounding_of_look(exact, fired, d, total, shift)
                if not loaded:
                    for k in range(d):
                        weights[k] = W[index, k]
                    _ascending(lists.inputs, begin, fired, order)
                    loaded = True
                looks += 1
                z = _decide(dot(weights, X[i]), coefficients, lists.inputs, begin, fired, order, products[i])
            elif fired <= d and (z >= shift) != (p - begin < count):  # it flips, and its value goes into the outputs
                z = np.float64(Z[index, i])
                for q in range(fired):
                    z += coefficients[q] * products[i, lists.inputs[begin + q]]
            fires, then = z >= shift, p - begin < count
            lists.side[p] = fires
            lists.expiry[p] = expiry_at(drift, abs(z - shift) - error, unit)
            soonest = min(soonest, lists.expiry[p])
            if fires != then:
                flipped = True
                corrections[i] += lists.sign[r] * ((z - shift) if fires else (shift - z))
                on += fires
                off += not fires
        lists.begin[r], lists.length[r] = begin, end - begin
        lists.soonest[r] = soonest
        room = end
        if flipped:
            pending[waiting] = r
            waiting += 1
    return room, waiting, looks, on, off


@compiled
def extract(lists, zone, only_moved, Gamma, now, scale):
    """Return the first ``zone[r]`` entries of each row by neuron, inputs ascending; ``only_moved``: coefficient not 0.

    Returns (rows with entries, bounds, inputs, coefficients).
    """
    total = rows = 0
    for r in range(zone.size):
        total += zone[r]
        rows += zone[r] > 0
    places, bounds = np.empty(rows, np.int64), np.zeros(rows + 1, np.int64)
    inputs, coefficients = np.empty(total, np.int32), np.empty(total)
    order = np.empty(32, np.int64)
    row = p = 0
    for r in range(zone.size):
        first, count = lists.begin[r], lists.linear[r]
        begun = p
        if zone[r] > order.size:
            order = np.empty(zone[r], np.int64)
        _ascending(lists.inputs, first, zone[r], order)
        for q in order[: zone[r]]:
            j = lists.inputs[first + q]
            c = lists.base[first + q] - (scale * lists.sign[r] * Gamma[now, j] if q < count else 0.0)
            if c != 0 or not only_moved:
                inputs[p], coefficients[p] = j, c
                p += 1
        if p > begun:
            places[row] = r
            row += 1
            bounds[row] = p
    return places[:row], bounds[: row + 1], inputs[:p], coefficients[:p]
