"""The scan of the start weights: who fires, the first step, watchlists. One block of rows at a time, while in cache."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from thresher.loops import compiled
from thresher.loops.certified import GATHER, add_up, expiry_at, norm_bound, rounding_of_look
from thresher.loops.pairs import dot

__all__ = ["places_at_least", "scan_block"]


@intrinsic
def _trailing_zeros(typing, word):
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
            found[count] = first + np.int64(_trailing_zeros(word))
            count += 1
            word &= word - np.uint64(1)
    for i in range(whole, values.size):
        if values[i] >= low:
            found[count] = i
            count += 1
    return count


@compiled
def _load(W, j, weights):
    for k in range(weights.size):  # a slice would take seconds to compile
        weights[k] = W[k, j]


@compiled
def _add(coefficient, products, watched, count, changes):
    for c in range(count):
        changes[c] += coefficient * products[watched[c]]


@compiled
def scan_block(
    Z, shifts, W, rows, twins, signs, shift, guards, unit, push, step, K, X, products, near, band, sums, lists, used
):  # fmt: skip
    """Find who fires at the start and after the first step, and write watchlists for neurons that fire.

    Z (rows, n) pre-activations of start rows, ``shifts`` (rows, n) their change by the first step or none (0, n) if it
    is to be followed pair by pair, W (d, rows) their weights; ``rows`` = (first of these to scan, number of
    the first one in the shard); ``guards`` bound the rounding of a working-precision and of a float64 product of start
    weights with an input; ``push`` = 1/sqrt(m); ``step`` (n,) the first step; ``band`` the drift to cover per square
    root of firing inputs. ``sums`` (2, n) gains the outputs before and after. ``lists`` are watchlists with room, of
    which ``used`` = (neurons, entries) are taken; neurons with a pair that flipped get a ``seen`` of -1.

    Returns the row where room ran out (or the number of rows), then the numbers of neurons and entries used, and of
    flips, pairs firing before, pairs firing after, and looks in this call.
    """
    guard, exact = guards
    first_row, place = rows
    row, entries = used
    n, d, copies = Z.shape[1], X.shape[1], 2 if twins else 1
    fires, watched = np.empty(n, np.uint32), np.empty(n, np.uint32)  # unsigned: no test for negative places
    coefficients, changes = np.zeros(n), np.empty(n, K.dtype)
    weights, vector = np.empty(d), np.empty(d)
    flips = before = after = looks = 0
    moves = False
    for i in range(n):
        moves |= step[i] != 0
    low, threshold = Z.dtype.type(shift - 1.01 * guard), Z.dtype.type(shift)
    for j in range(first_row, Z.shape[0]):
        if entries + copies * n > lists.inputs.size:
            return j, row, entries, flips, before, after, looks
        z0 = Z[j]
        candidates = places_at_least(z0, low, fires)
        if candidates == 0:
            continue
        count = 0
        loaded = False
        known = shifts.size > 0  # unless rounding made the wrong inputs fire when they were computed
        for c in range(candidates):
            i = fires[c]
            if z0[i] <= shift + guard:
                if not loaded:
                    _load(W, j, weights)
                    loaded = True
                looks += 1
                fires_then = dot(weights, X[i]) >= shift
                known &= fires_then == (z0[i] >= threshold)
                if not fires_then:
                    continue
            fires[count] = i
            count += 1
        if count == 0:
            continue
        width = band * (np.sqrt(count) + 2.0) * (1.0 - 4.0 * unit)
        total = reach = 0.0
        if moves:
            for q in range(count):
                coefficients[q] = -push * step[fires[q]]
                total += abs(coefficients[q])
                reach += abs(coefficients[q]) * near[fires[q]]
            if reach > width:  # worth a closer bound
                reach = min(reach, norm_bound(coefficients, fires, 0, count, K, X, weights, unit))
                loaded = False
        doubt = guard + (count + 4 + (d + 4 if known else 0)) * unit * total
        # No pre-activation of an input that does not fire moves by more than the reach: what lies further below stays
        # below the band.
        candidates = places_at_least(z0, Z.dtype.type(shift - width - reach - 1.01 * doubt), watched)
        for c in range(candidates):
            changes[c] = shifts[j, watched[c]] if known else 0.0
        for q in range(0 if known else count):
            _add(K.dtype.type(coefficients[q]), K[fires[q]], watched, candidates, changes)
        by_vector = moves and GATHER * count > 2 * d
        if by_vector:
            add_up(coefficients, fires, 0, count, X, vector)
        for twin in range(copies):
            sign = signs[copies * j + twin]
            begin, end = entries, entries + count
            soonest, flipped = width, False
            q = 0
            for c in range(candidates):
                i = watched[c]
                z = z0[i] + sign * changes[c]
                fired_then = q < count and fires[q] == i
                if fired_then:
                    p = begin + q
                    q += 1
                    sums[0, i] += sign * (z0[i] - shift)
                elif z >= shift - width - doubt:
                    p = end
                    end += 1
                else:
                    continue
                error = doubt
                if abs(z - shift) <= doubt:
                    if not loaded:
                        _load(W, j, weights)
                        loaded = True
                    looks += 1
                    error = rounding_of_look(exact, count, d, total, shift)
                    z = dot(weights, X[i])
                    if moves:
                        for k in range(count):
                            z += sign * coefficients[k] * products[i, fires[k]]
                elif z >= shift and moves:  # its value goes into the outputs: in float64, whatever decided
                    change = 0.0
                    if by_vector:
                        change = dot(vector, X[i])
                    else:
                        for k in range(count):
                            change += coefficients[k] * products[i, fires[k]]
                    z = z0[i] + sign * change
                fires_now = z >= shift
                expiry = expiry_at(0.0, abs(z - shift) - error, unit)
                lists.inputs[p], lists.start[p], lists.side[p], lists.expiry[p] = i, z0[i], fires_now, expiry
                soonest = min(soonest, lists.expiry[p])
                if fires_now:
                    sums[1, i] += sign * (z - shift)
                    after += 1
                if fires_now != fired_then:
                    flips += 1
                    flipped = True
            entries = end
            before += count
            lists.neurons[row] = copies * (place + j) + twin
            lists.sign[row], lists.begin[row], lists.length[row] = sign, begin, end - begin
            lists.linear[row] = lists.fired[row] = count
            lists.drift[row], lists.band[row], lists.soonest[row] = 0.0, width, soonest
            lists.seen[row] = -1 if flipped else 0
            row += 1
    return Z.shape[0], row, entries, flips, before, after, looks
