"""Compiled loops over the pairs that fire in a block of neurons: ``bounds`` (k + 1,) and ``inputs`` (pairs,).

They belong to the rivals, who share one thing with the search that they are measured against: its vector comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from thresher.loops import compiled, helper
from thresher.loops.instructions import REGISTER, spread
from thresher.loops.instructions.butterflies import TILE, transform_tile
from thresher.loops.instructions.places import places_at_least
from thresher.loops.numbers.hadamard import GROUP, fill_lengths, fill_signs


@compiled(allocates=True)
def collect(z, shift, signs, outputs, inputs):
    """Return who fires in pre-activations z (k, n), and add what they say to ``outputs`` (n,).

    ``inputs`` is room for all pairs.
    """
    k, n = z.shape
    bounds, found = np.empty(k + 1, np.int64), np.empty(n, np.uint32)
    bounds[0] = p = 0
    for r in range(k):
        row = z[r]
        count = places_at_least(row, row.size, shift, found)
        for q in range(count):
            i = found[q]
            inputs[p + q] = i
            outputs[i] += signs[r] * (np.float64(row[i]) - shift)
        p += count
        bounds[r + 1] = p
    return bounds, inputs[:p].copy()


@compiled(allocates=True)
def move(bounds, inputs, factors, step, X, W):
    """W[r] -= factors[r] * (sum of step[i] X[i] over the inputs i that r fires on)."""
    change = np.empty(X.shape[1], X.dtype)
    for r in range(bounds.size - 1):
        if bounds[r] < bounds[r + 1]:
            change[:] = 0
            for p in range(bounds[r], bounds[r + 1]):
                for k in range(X.shape[1]):
                    change[k] += step[inputs[p]] * X[inputs[p], k]
            for k in range(X.shape[1]):
                W[r, k] -= factors[r] * change[k]


@compiled
def descend(bounds, inputs, factors, step, X, W, velocity, lost, momentum):
    """Move with momentum; ``lost`` (k, d) keeps what float32 rounds off, or small steps would vanish (Kahan)."""
    for r in range(bounds.size - 1):
        for k in range(X.shape[1]):
            velocity[r, k] *= momentum
        for p in range(bounds[r], bounds[r + 1]):
            c = factors[r] * step[inputs[p]]
            for k in range(X.shape[1]):
                velocity[r, k] += c * X[inputs[p], k]
        for k in range(X.shape[1]):
            wanted = -velocity[r, k] - lost[r, k]
            reached = W[r, k] + wanted
            lost[r, k] = (reached - W[r, k]) - wanted
            W[r, k] = reached


@compiled
def mark(bounds, inputs, out):
    """Write 1 into ``out`` (k, n) for every pair that fires, 0 elsewhere."""
    out[:] = 0
    for r in range(bounds.size - 1):
        for p in range(bounds[r], bounds[r + 1]):
            out[r, inputs[p]] = 1


@compiled(allocates=True)
def move_along(bounds, inputs, factors, step, kept):
    """Return what rows moved by, after -factors[r] * step[i] more along each input i that r fires on.

    ``kept`` is what they had moved by: bounds, inputs, which ascend in each row, and coefficients (float32).
    """
    before, which, coefficients = kept
    after, q = np.zeros(bounds.size, np.int64), 0
    out, size = np.empty(inputs.size + which.size, np.int32), np.empty(inputs.size + which.size, np.float32)
    for r in range(bounds.size - 1):
        s, last = before[r], before[r + 1]
        for p in range(bounds[r], bounds[r + 1]):
            i = inputs[p]
            while s < last and which[s] < i:
                out[q], size[q] = which[s], coefficients[s]
                s, q = s + 1, q + 1
            out[q], size[q] = i, -factors[r] * step[i]
            if s < last and which[s] == i:
                size[q] += coefficients[s]
                s += 1
            q += 1
        while s < last:
            out[q], size[q] = which[s], coefficients[s]
            s, q = s + 1, q + 1
        after[r + 1] = q
    return after, out[:q].copy(), size[:q].copy()


@compiled(relaxed=True)
def collect_rotated(seed, first, tiles, strips, kept, shift, factors, outputs, room, bounds, inputs):
    """Find who fires of Hadamard rows ``first, first + 1, ...`` that have moved; return how many pairs do.

    ``tiles`` (t, p, TILE) are rotated inputs, ``strips`` (t, n, TILE) products of inputs; ``kept`` are bounds, inputs
    and coefficients of what each row moved by. Values of a tile stay in the fastest cache from their transform to their
    comparison. Writes ``bounds`` and ``inputs``, and adds to ``outputs``, as :func:`collect` does. ``first`` is a
    multiple of GROUP; ``room`` is work space. Cost: O(log p + inputs moved along) a pair.
    """
    signs, lengths, before, after, found, listed = room
    n, rows, p, total = outputs.size, factors.size, signs.shape[1], 0
    skipped = first % p  # rows of the first block of signs that are not asked for
    blocks = (skipped + rows + p - 1) // p
    for k in range(blocks):
        fill_signs(seed, first // p + k, signs[k])
        fill_lengths(seed, (first // p + k) * p, p, lengths[k])
    bounds[:] = 0
    values = after.reshape(-1)
    for t in range(tiles.shape[0]):
        for k in range(blocks):
            begin, end = max(k * p - skipped, 0), min((k + 1) * p - skipped, rows)
            place = begin + skipped - k * p
            until = place + end - begin + -(end - begin) % GROUP
            transform_tile(tiles[t], signs[k], lengths[k], before, place, until, 0, after)
            add_moved(after, strips[t], kept, begin, end)
            for q in range(places_at_least(values, (end - begin) * TILE, shift, found)):
                r, i = begin + found[q] // TILE, t * TILE + found[q] % TILE
                if i < n:
                    outputs[i] += factors[r] * (np.float64(values[found[q]]) - shift)
                    listed[total] = np.int64(r) << 32 | i
                    bounds[r + 1] += 1
                    total += 1
    for r in range(rows):
        bounds[r + 1] += bounds[r]
    for q in range(total):  # listed tile by tile: now row by row, where they ascend
        r = listed[q] >> 32
        inputs[bounds[r]] = listed[q] & 0xFFFFFFFF
        bounds[r] += 1
    for r in range(rows, 0, -1):
        bounds[r] = bounds[r - 1]
    bounds[0] = 0
    return total


def _repeat(builder: Any, times: Any, values: Sequence[Any], body: Callable[[Any, list[Any]], Sequence[Any]]) -> Any:
    """Write a loop, run at least once, in which ``body(k, values)`` makes new values of old ones; return the last."""
    long, before = ir.IntType(64), builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    k, carried = builder.phi(long), [builder.phi(value.type) for value in values]
    new = body(k, carried)
    following = builder.add(k, ir.Constant(long, 1))
    for phi, first, next_one in zip((k, *carried), (ir.Constant(long, 0), *values), (following, *new), strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(next_one, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, times), loop, done)
    builder.position_at_end(done)
    return new


@intrinsic
def _add_products(typing, values, place, strip, inputs, coefficients, first, last):
    """Add to TILE numbers from ``place`` on the rows of a strip that are listed, times their coefficients.

    The sums stay in registers. A loop that Numba compiles asks for each row whether it overlaps them, which takes
    longer than adding it.
    """

    def generate(context, builder, signature, arguments):
        kinds, (values, place, strip, inputs, coefficients, first, last) = signature.args, arguments
        target, rows, which, factors = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip((kinds[0], *kinds[2:5]), (values, strip, inputs, coefficients), strict=True)
        )
        whole, vector = ir.IntType(64), ir.VectorType(ir.FloatType(), REGISTER)

        def at(data, place, lane):
            address = builder.gep(data, [builder.add(place, ir.Constant(whole, lane))])
            return builder.bitcast(address, vector.as_pointer())

        def load(data, place, lane):
            return builder.load(at(data, place, lane), align=4)

        def add(k, sums):
            q = builder.add(first, k)
            factor = spread(builder, builder.load(builder.gep(factors, [q])), REGISTER)
            row = builder.mul(builder.zext(builder.load(builder.gep(which, [q])), whole), ir.Constant(whole, TILE))
            products = [builder.fmul(factor, load(rows, row, lane), flags=("contract",)) for lane in lanes]
            return [builder.fadd(*pair, flags=("contract",)) for pair in zip(sums, products, strict=True)]

        lanes = range(0, TILE, REGISTER)
        sums = _repeat(builder, builder.sub(last, first), [load(target, place, lane) for lane in lanes], add)
        for total, lane in zip(sums, lanes, strict=True):
            builder.store(total, at(target, place, lane), align=4)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(values, whole, strip, inputs, coefficients, whole, whole), generate


@helper
def add_moved(values, strip, kept, begin, end):
    """Add to values (rows, TILE) what rows ``begin`` to ``end - 1`` moved by, coefficients times products (n, TILE)."""
    bounds, inputs, coefficients = kept
    for r in range(begin, end):
        if bounds[r] < bounds[r + 1]:
            _add_products(values, (r - begin) * TILE, strip, inputs, coefficients, bounds[r], bounds[r + 1])
