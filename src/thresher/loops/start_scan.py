"""The scan of the start weights: which neurons fire, the first step, watchlists.

One block of rows at a time, while it is in the cache.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

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
from thresher.loops.screen import CHUNK, bound_rows, room_for
from thresher.loops.structures import Displacement, Scanned

__all__ = ["dots", "places_at_least", "scan_block", "trailing_zeros"]

NEAR, FAR_GATHER = 1 << 21, 24  # bytes of products that caches near the processor hold, and GATHER beyond them


@intrinsic
def trailing_zeros(typing, word):
    """Return the number of zero bits below the lowest one bit of a 64-bit word that is not zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), generate


@intrinsic
def _at_least(typing, values, first, low):
    """Return 64 bits: which of ``values[first : first + 64]`` are >= low. A few vector comparisons, no branch."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        kind = ir.VectorType(context.get_data_type(signature.args[0].dtype), 64)
        undefined, lanes = ir.Constant(kind, ir.Undefined), ir.VectorType(ir.IntType(32), 64)
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())
        loaded = builder.load(address, align=signature.args[0].dtype.bitwidth // 8)
        one = builder.insert_element(undefined, arguments[2], ir.Constant(ir.IntType(32), 0))
        lows = builder.shuffle_vector(one, undefined, ir.Constant(lanes, [0] * 64))
        return builder.bitcast(builder.fcmp_ordered(">=", loaded, lows), ir.IntType(64))

    return types.uint64(values, types.int64, values.dtype), generate


@njit(inline="always")
def places_at_least(values, low, found):
    """Write the places of values >= low to ``found``, ascending; return their number."""
    count = 0
    whole = values.size - values.size % 64
    for first in range(0, whole, 64):
        word = _at_least(values, first, low)
        while word:
            found[count] = first + np.int64(trailing_zeros(word))
            count += 1
            word &= word - np.uint64(1)
    for i in range(whole, values.size):
        if values[i] >= low:
            found[count] = i
            count += 1
    return count


@compiled
def _add(coefficient, products, watched, count, changes):
    for c in range(count):
        changes[c] += coefficient * products[watched[c]]


@compiled(sums=True)
def _sum_up(coefficients, listed, count, X, vector):
    """Set ``vector`` (d,) to the sum of coefficients times listed inputs; return the square of its norm."""
    for k in range(vector.size):
        vector[k] = 0
    for q in range(count):
        coefficient, x = vector.dtype.type(coefficients[q]), X[listed[q]]
        for k in range(vector.size):
            vector[k] += coefficient * x[k]
    square = vector.dtype.type(0)
    for k in range(vector.size):
        square += vector[k] * vector[k]
    return np.float64(square)


@compiled(sums=True)
def dots(vector, X, listed, count, out):
    """Write the inner products of a vector with the listed inputs to ``out``, four at a time: they share its loads."""
    whole = count - count % 4
    for c in range(0, whole, 4):
        a, b, e, f = X[listed[c]], X[listed[c + 1]], X[listed[c + 2]], X[listed[c + 3]]
        sum_a = sum_b = sum_e = sum_f = out.dtype.type(0)
        for k in range(vector.size):
            sum_a += vector[k] * a[k]
            sum_b += vector[k] * b[k]
            sum_e += vector[k] * e[k]
            sum_f += vector[k] * f[k]
        out[c], out[c + 1], out[c + 2], out[c + 3] = sum_a, sum_b, sum_e, sum_f
    for c in range(whole, count):
        a, sum_a = X[listed[c]], out.dtype.type(0)
        for k in range(vector.size):
            sum_a += vector[k] * a[k]
        out[c] = sum_a


@compiled
def _look(weights, X, listed, count, low, room, values):
    """Write pre-activations of the listed inputs to ``values`` (n,); keep those >= low in the list, return how many."""
    dots(weights, X, listed, count, room)
    kept = 0
    for c in range(count):
        i, z = listed[c], room[c]
        values[i], listed[kept] = z, i
        kept += z >= low
    return kept


@njit(inline="always")
def _mark(marks, listed, count, value):
    for c in range(count):
        marks[listed[c]] = value


@compiled
def _keep_near(bounds, changes, watched, count, fired, sign, low):
    """Keep of the watched inputs those that fired, and those whose bound may be >= low after their change.

    With a sign of 0 changes have either sign. Returns how many are kept. No branches: they would be hard to predict.
    """
    kept = 0
    for c in range(count):
        i, change = watched[c], changes[c]
        bound = bounds[i] + (abs(change) if sign == 0 else sign * change)
        watched[kept], changes[kept] = i, change
        kept += fired[i] | (bound >= low)
    return kept


@compiled
def scan_block(rows, step, constants, inputs, sums, lists, used):
    """Find which neurons fire at the start and after the first step, and write watchlists for those.

    ``rows`` are ``StartRows``; ``constants`` have the guards of this block; ``step`` (n,) is the first step. ``sums``
    (2, n) gains the outputs before and after. ``lists`` are watchlists with room, of which ``used`` = (neurons,
    entries) are taken; neurons with a pair that flipped get a ``seen`` of -1. Returns ``Scanned``.
    """
    Z, first_step_change, signs = rows.products, rows.first_step_change, rows.signs
    K, X, products = inputs.fast_products, inputs.vectors, inputs.products
    shift, guard, unit, twins = constants.shift, constants.guards[0], constants.unit, constants.twins
    row, entries = used
    (n, d), copies = X.shape, 2 if twins else 1
    screened, last = rows.weights.size > 0, signs.size // copies
    room, values, some = np.empty((CHUNK if screened else 0, n), Z.dtype), np.empty(n, Z.dtype), np.empty(n, Z.dtype)
    eight_bit, fired = room_for(rows.rounded_inputs), np.zeros(n, np.bool_)
    fires, watched = np.empty(n, lists.inputs.dtype), np.empty(n, lists.inputs.dtype)
    changes, fast_vector = np.empty(n, K.dtype), np.empty(d, K.dtype)
    gather = GATHER if K.nbytes <= NEAR else FAR_GATHER
    scratch = make_scratch(n, d)
    coefficients, vector, weights = scratch.coefficients, scratch.vector, scratch.weights
    flips = before = after = looks = 0
    moves = np.any(step != 0)
    low, threshold = Z.dtype.type(safely_below(shift, guard)), Z.dtype.type(shift)
    for j in range(rows.first, last):
        if entries + copies * n > lists.inputs.size:
            return Scanned(j, row, entries, flips, before, after, looks)
        here, neuron = (j - rows.first) % CHUNK, copies * (rows.place + j)
        if screened and here == 0:
            bound_rows(rows.rounded, j, min(j + CHUNK, last), rows.rounded_inputs, d, eight_bit, room)
        bounds, z0 = (room[here], values) if screened else (Z[j], Z[j])
        candidates = places_at_least(bounds, low, fires)
        if screened:
            candidates = _look(rows.weights[j], rows.vectors, fires, candidates, low, some, values)
        if candidates == 0:
            continue
        count = 0
        known = first_step_change.size > 0  # unless rounding made the wrong inputs fire when it was computed
        for c in range(candidates):
            i = fires[c]
            if z0[i] <= shift + guard:
                load_start(neuron, constants, inputs, scratch)
                looks += 1
                fires_then = dot(weights, X[i]) >= shift
                known &= fires_then == (z0[i] >= threshold)
                if not fires_then:
                    continue
            fires[count] = i
            count += 1
        if count == 0:
            continue
        width = rounded_down(constants.band * (np.sqrt(count) + 2.0), unit)
        total = reach = 0.0
        for q in range(count):
            coefficients[q] = -constants.scale * step[fires[q]]
            total += abs(coefficients[q])
            reach += abs(coefficients[q]) * inputs.max_correlation[fires[q]]
        moved = Displacement(1.0, np.int64(0), count, total, False)
        from_inputs = moves and not known and (not K.size or gather * count >= d)
        if from_inputs:
            square = _sum_up(coefficients, fires, count, rows.vectors, fast_vector)
            reach = min(reach, norm_at_most(square, 2 * count + 4, d, unit, total))
        elif reach > width:  # worth a closer bound
            reach = min(reach, norm_bound(moved, coefficients, fires, K, X, vector, unit))
        doubt = doubt_of(moved, constants, d)
        # No pre-activation of an input that does not fire moves by more than the reach: what lies further below stays
        # below the band.
        candidates = places_at_least(bounds, Z.dtype.type(safely_below(shift - width - reach, doubt)), watched)
        fine = moves and doubt > 2.0 * guard  # a change in working precision may be off by more than z0 is
        by_vector = fine and (not K.size or GATHER * count > 2 * d)
        if by_vector:
            add_up(moved, coefficients, fires, X, vector)
        if from_inputs:
            dots(fast_vector, rows.vectors, watched, candidates, changes)
        else:
            for c in range(candidates):
                changes[c] = first_step_change[j, watched[c]] if known else 0.0
            if moves and not known:
                for q in range(count):
                    _add(K.dtype.type(coefficients[q]), K[fires[q]], watched, candidates, changes)
        _mark(fired, fires, count, True)
        level = safely_below(shift - width, doubt)
        candidates = _keep_near(bounds, changes, watched, candidates, fired, 0.0 if twins else signs[j], level)
        if screened:
            _look(rows.weights[j], rows.vectors, watched, candidates, -np.inf, some, values)
        for twin in range(copies):
            sign = signs[copies * j + twin]
            moved = Displacement(sign, np.int64(0), count, total, False)
            begin, end = entries, entries + count
            soonest, flipped, q = width, False, 0
            for p in range(count):
                sums[0, fires[p]] += sign * (z0[fires[p]] - shift)
            for c in range(candidates):
                i = watched[c]
                z, fired_then = z0[i] + sign * changes[c], fired[i]
                if z < shift - width - doubt and not fired_then:
                    continue
                p = begin + q if fired_then else end
                q += fired_then
                end += not fired_then
                error = doubt
                if abs(z - shift) <= doubt:
                    z, error = decide(i, neuron + twin, moved, fires, constants, inputs, scratch)
                    looks += 1
                elif fine and z >= shift:  # its value goes into the outputs
                    if by_vector:
                        z = z0[i] + sign * dot(vector, X[i])
                    else:
                        z = z0[i] + add_products(0.0, i, moved, coefficients, fires, products)
                fires_now = z >= shift
                expiry = expiry_at(0.0, abs(z - shift) - error, unit)
                lists.inputs[p], lists.start[p], lists.side[p], lists.expiry[p] = i, z0[i], fires_now, expiry
                soonest = min(soonest, lists.expiry[p])
                sums[1, i] += sign * max(z - shift, 0.0)
                after += fires_now
                flips += fires_now != fired_then
                flipped |= fires_now != fired_then
            entries = end
            before += count
            lists.neurons[row] = neuron + twin
            lists.sign[row], lists.begin[row], lists.length[row] = sign, begin, end - begin
            lists.linear[row] = lists.fired[row] = count
            lists.drift[row], lists.band[row], lists.soonest[row] = 0.0, width, soonest
            lists.seen[row] = -1 if flipped else 0
            row += 1
        _mark(fired, fires, count, False)
    return Scanned(last, row, entries, flips, before, after, looks)
